package registration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// checkProfiles checks every profile and settles the mode.
func (c *checker) checkProfiles() {
	c.checkNames()
	for i, p := range c.profiles() {
		s := shapeOf(p.Plugins)
		c.shapes = append(c.shapes, s)
		c.checkPoints(i, s)
		c.checkBinders(i, p.Plugins)
		c.checkBindTimeout(i, p, s)
	}
	c.found.Mode = c.mode()
	c.checkAlike()
}

// mode is what all profiles have in common.
func (c *checker) mode() Mode {
	first := c.shapes[0].mode
	for _, s := range c.shapes {
		if s.mode != first {
			return ModeMixed
		}
	}
	return first
}

func (c *checker) checkNames() {
	first := map[string]int{}
	for i, name := range c.found.SchedulerNames {
		at := profilePath(i) + ".schedulerName"
		earlier, twice := first[name]
		switch {
		case name == "":
			c.fault("profile-without-name", at, "The profile has no schedulerName.",
				"With more than one profile each needs a name; kube-scheduler does not start.",
				"Give the profile a schedulerName of its own.")
		case twice:
			c.fault("profile-name-twice", at, fmt.Sprintf("Two profiles are named %q (the other is %s).", name, profilePath(earlier)),
				"kube-scheduler does not start.", "Rename one of them, or merge the two.")
		}
		first[name] = i
	}
}

// checkPoints looks for a VolumeBinding plugin that is half there.
func (c *checker) checkPoints(i int, s shape) {
	at, who := profilePath(i)+".plugins", c.profile(i)
	switch {
	case s.on[reserve] && !s.on[preBind]:
		c.fault("reserve-left-on", at+".reserve",
			fmt.Sprintf("In %s VolumeBinding is disabled at preBind, but still runs at reserve.", who),
			"The scheduler goes on setting volumes aside for pods in its own cache, never binds them and never lets go: prebind picks other volumes, and pods stay Pending beside volumes that are free.",
			"Disable both or none. For mode bind add to the profile: plugins.reserve.disabled: [{name: VolumeBinding}].")
	case !s.on[reserve] && s.on[preBind]:
		c.fault("prebind-left-on", at+".preBind",
			fmt.Sprintf("In %s VolumeBinding is disabled at reserve, but still runs at preBind.", who),
			"The scheduler's preBind finds nothing that reserve would have prepared, and fails for pods with volumes before prebind is ever called.",
			"Disable both or none. For mode bind add to the profile: plugins.preBind.disabled: [{name: VolumeBinding}].")
	case s.on[reserve] && !s.on[filter]:
		c.fault("filter-off-reserve-on", at+".filter",
			fmt.Sprintf("In %s VolumeBinding is disabled at filter, but still runs at reserve and preBind.", who),
			"Reserve works on what filter found out for the node. Without it no pod with unbound claims is ever bound.",
			"Disable VolumeBinding at reserve and preBind too (mode full), or take it out of plugins.filter.disabled.")
	}
	if s.on[preFilter] {
		return
	}
	var left []string
	for _, p := range allPoints()[1:] {
		if s.on[p] {
			left = append(left, string(p))
		}
	}
	if len(left) > 0 {
		c.fault("prefilter-off", at+".preFilter",
			fmt.Sprintf("In %s VolumeBinding is disabled at preFilter, but still runs at %s.", who, strings.Join(left, ", ")),
			"Its other points read what preFilter prepared and return an error without it: pods of this profile are not scheduled.",
			"Take VolumeBinding out of plugins.preFilter.disabled.")
	}
}

// checkBinders looks at who would bind if prebind did not.
func (c *checker) checkBinders(i int, plugins *configv1.Plugins) {
	if plugins == nil {
		return
	}
	at := profilePath(i) + ".plugins.bind"
	def := runs(defaultBinder, plugins, plugins.Bind)
	var others []string
	for _, p := range plugins.Bind.Enabled {
		if p.Name != defaultBinder {
			others = append(others, p.Name)
		}
	}
	switch {
	case len(others) > 0:
		c.advise("other-binder", at, fmt.Sprintf("In %s the bind plugin %s is enabled.", c.profile(i), strings.Join(others, ", ")),
			"An extender with bindVerb answers for every pod, so that bind plugins are not called any more: whatever this one does beside the Binding is not done.",
			"Remove it, or make sure that nothing depends on it.")
	case !def && len(plugins.MultiPoint.Enabled) == 0:
		c.fault("no-binder", at, fmt.Sprintf("In %s DefaultBinder is disabled and no other bind plugin is enabled.", c.profile(i)),
			"kube-scheduler wants one bind plugin in each profile, even if an extender binds, and does not start.",
			"Take DefaultBinder (or \"*\") out of plugins.bind.disabled: it is not called while prebind binds.")
	}
}

// checkBindTimeout finds the plugin's own time-out, which moves to prebind.
func (c *checker) checkBindTimeout(i int, p configv1.KubeSchedulerProfile, s shape) {
	if s.on[preBind] {
		return
	}
	for j, plugin := range p.PluginConfig {
		var args configv1.VolumeBindingArgs
		if plugin.Name != volumeBinding || json.Unmarshal(plugin.Args.Raw, &args) != nil || args.BindTimeoutSeconds == nil {
			continue
		}
		if own := time.Duration(*args.BindTimeoutSeconds) * time.Second; own != c.options.BindTimeout {
			c.advise("bind-timeout-moved", fmt.Sprintf("%s.pluginConfig[%d].args.bindTimeoutSeconds", profilePath(i), j),
				fmt.Sprintf("In %s VolumeBinding has a bindTimeoutSeconds of %d (%s).", c.profile(i), *args.BindTimeoutSeconds, own),
				fmt.Sprintf("prebind binds volumes now, and its own volumes.bindTimeout counts (%s).", c.options.BindTimeout),
				fmt.Sprintf("If %s is what you want, set volumes.bindTimeout in prebind's configuration, and httpTimeout of its extender entry above it.", own))
		}
	}
}

// checkAlike compares the profiles: extenders are called for all of them.
func (c *checker) checkAlike() {
	modes := map[Mode][]string{}
	for i, s := range c.shapes {
		modes[s.mode] = append(modes[s.mode], c.found.SchedulerNames[i])
	}
	if len(modes) < 2 {
		return
	}
	list := func(m Mode) string { return strings.Join(modes[m], ", ") }
	switch stock, bind, full := list(ModeStock), list(ModeBind), list(ModeFull); {
	case stock != "" && (bind != "" || full != ""):
		handed := strings.Trim(bind+", "+full, ", ")
		c.fault("profiles-differ", profilePath(slices.IndexFunc(c.shapes, func(s shape) bool { return s.mode == ModeStock }))+".plugins",
			fmt.Sprintf("VolumeBinding is disabled at reserve and preBind in some profiles (%s), but not in others (%s).", handed, stock),
			"All profiles share the cluster's volumes and prebind is called for all of them. Where the plugin is on, the scheduler promises volumes to pods that prebind has promised to others, and both fail and try again.",
			"Put the same two lists into every profile: reserve.disabled and preBind.disabled with VolumeBinding.")
	case bind != "" && full != "":
		c.advise("profiles-differ", "profiles",
			fmt.Sprintf("Some profiles filter nodes by volumes in the scheduler (%s), others leave it to prebind (%s).", bind, full),
			"It works, but prebind is asked to filter for all of them, so that the work is done twice for the former.",
			"Disable VolumeBinding at the same points in every profile.")
	}
}
