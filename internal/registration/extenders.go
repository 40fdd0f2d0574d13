package registration

import (
	"fmt"
	"strings"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The verbs that prebind serves under /v1.
const (
	bindVerb       = "bind"
	filterVerb     = "filter"
	prioritizeVerb = "prioritize"
)

// filterTimeoutLimit is how long one filter call may hold up the scheduling of
// all pods before it is worth a word.
const filterTimeoutLimit = 30 * time.Second

func extenderPath(i int) string { return fmt.Sprintf("extenders[%d]", i) }

// checkExtenders finds prebind's entries and checks them.
func (c *checker) checkExtenders() {
	for i, e := range c.cfg.Extenders {
		if e.PrioritizeVerb != "" && e.Weight <= 0 {
			c.fault("weight-missing", extenderPath(i)+".weight", "The entry has a prioritizeVerb but no weight above 0.",
				"kube-scheduler does not start.", "Set weight: 1.")
		}
	}
	binder := c.binder()
	if binder < 0 {
		return
	}
	bind := c.cfg.Extenders[binder]
	c.found.Path = extenderPath(binder)
	c.checkBindEntry(binder, bind)
	filters := false
	for i, e := range c.cfg.Extenders {
		mine := i == binder || e.BindVerb == "" && looksLikePrebind(e.URLPrefix, e.TLSConfig, bind.URLPrefix)
		if !mine {
			continue
		}
		c.checkTransport(i, e, i == binder)
		c.checkVerbs(i, e)
		if e.FilterVerb != "" {
			filters = true
			c.checkFilterEntry(i, e, i == binder)
		}
	}
	if !filters {
		c.checkUnfiltered()
	}
}

// binder returns the index of the entry that binds; -1 if there is none.
func (c *checker) binder() int {
	var all []int
	for i, e := range c.cfg.Extenders {
		if e.BindVerb != "" {
			all = append(all, i)
		}
	}
	switch len(all) {
	case 0:
		c.unregistered()
		return -1
	case 1:
		return all[0]
	}
	c.fault("two-binders", extenderPath(all[1])+".bindVerb",
		fmt.Sprintf("%d entries have a bindVerb (%s and %s).", len(all), c.cfg.Extenders[all[0]].URLPrefix, c.cfg.Extenders[all[1]].URLPrefix),
		"Only one extender can bind; kube-scheduler does not start.",
		"Leave bindVerb only in prebind's entry. If the other extender really has to bind its pods itself, give it a scheduler of its own.")
	for _, i := range all {
		if e := c.cfg.Extenders[i]; looksLikePrebind(e.URLPrefix, e.TLSConfig, "") {
			return i
		}
	}
	return all[0]
}

// unregistered says how bad it is that nobody is called to bind.
func (c *checker) unregistered() {
	var without []string
	at := ""
	for i, s := range c.shapes {
		if !s.on[preBind] {
			without = append(without, c.found.SchedulerNames[i])
			if at == "" {
				at = profilePath(i) + ".plugins.preBind"
			}
		}
	}
	if len(without) > 0 {
		c.fault("nobody-binds-volumes", at,
			fmt.Sprintf("VolumeBinding is disabled at preBind (%s), and no extender has a bindVerb.", strings.Join(without, ", ")),
			"Nobody binds volumes: the scheduler binds pods whose claims are not bound, and they hang on their nodes without volumes. This is the worst state of all.",
			"At once: either take VolumeBinding out of the disabled lists and restart the scheduler, or add prebind's entry (prebind scheduler-config --patch FILE).")
		return
	}
	c.found.Mode = ModeNone
	c.fault(NotRegistered, "extenders", "No extender has a bindVerb: prebind is not registered in this file.",
		"The scheduler binds volumes and pods by itself; prebind is never called.",
		"Make the entry with: prebind scheduler-config --patch FILE. If prebind is meant to be out, all is well.")
}

// checkBindEntry checks what matters to bind alone.
func (c *checker) checkBindEntry(i int, e configv1.Extender) {
	at := extenderPath(i)
	if e.Ignorable {
		c.fault("ignorable", at+".ignorable", "The entry that binds is ignorable: true.",
			"After any error of prebind (a volume that is not ready, a restart) the scheduler binds the pod by itself, and it starts on a node without its volumes.",
			"Set ignorable: false, or leave the line out.")
	}
	if len(e.ManagedResources) > 0 {
		c.fault("managed-resources", at+".managedResources",
			fmt.Sprintf("The entry has managedResources (%s, ...).", e.ManagedResources[0].Name),
			"Only pods that request one of these resources are sent to prebind. All others are bound by the scheduler itself; with VolumeBinding disabled, without their volumes.",
			"Remove managedResources. Claims cannot be named there: every pod must come, and those without claims take microseconds.")
	}
	c.checkHTTPTimeout(at, e)
}

func (c *checker) checkHTTPTimeout(at string, e configv1.Extender) {
	c.found.HTTPTimeout = e.HTTPTimeout.Duration
	text := e.HTTPTimeout.Duration.String()
	if c.found.HTTPTimeout == 0 {
		c.found.HTTPTimeout, text = unsetHTTPTimeout, "not set, which means 5s"
	}
	if c.found.HTTPTimeout > c.options.BindTimeout {
		return
	}
	report, why := c.fault, "While volumes are being made the scheduler hangs up, counts the pod as failed and tries again, again and again; slow volumes never come to their pod, and prebind's own message of what it waited for is lost."
	if c.found.Mode == ModeStock {
		report, why = c.advise, "In mode stock volumes arrive bound and a call is short, but when the API server is slow the scheduler hangs up, counts the pod as failed and tries again, although the pod may have been bound."
	}
	report("http-timeout", at+".httpTimeout",
		fmt.Sprintf("httpTimeout is %s; prebind's bindTimeout is %s.", text, c.options.BindTimeout), why,
		fmt.Sprintf("Set httpTimeout: %s (bindTimeout and a minute).", short(c.options.BindTimeout+time.Minute)))
}

// short prints a duration without its zero parts.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// checkVerbs finds verbs that prebind does not serve.
func (c *checker) checkVerbs(i int, e configv1.Extender) {
	for _, verb := range []struct{ key, is, want string }{
		{"bindVerb", e.BindVerb, bindVerb},
		{"filterVerb", e.FilterVerb, filterVerb},
		{"prioritizeVerb", e.PrioritizeVerb, prioritizeVerb},
	} {
		if verb.is != "" && verb.is != verb.want {
			c.fault("unknown-verb", extenderPath(i)+"."+verb.key, fmt.Sprintf("%s is %q.", verb.key, verb.is),
				"prebind does not serve that path and answers 404, so that every call fails.",
				fmt.Sprintf("Write %s: %s.", verb.key, verb.want))
		}
	}
	if e.PreemptVerb != "" {
		c.fault("unknown-verb", extenderPath(i)+".preemptVerb", fmt.Sprintf("preemptVerb is %q.", e.PreemptVerb),
			"prebind has no preempt call and answers 404, so that no pod can preempt others.", "Remove preemptVerb.")
	}
}

// checkFilterEntry checks an entry that is called in the scheduling loop.
func (c *checker) checkFilterEntry(i int, e configv1.Extender, binds bool) {
	at := extenderPath(i)
	if binds {
		c.fault("shared-entry", at+".filterVerb", "One entry has both filterVerb and bindVerb.",
			"An entry has one httpTimeout for all its verbs. Bind needs one of many minutes; filter is called inside the one scheduling loop, and one call that hangs would stop the scheduling of all pods for as long.",
			"Make two entries of it: one with filterVerb, prioritizeVerb and httpTimeout: 5s, and one with bindVerb and the long httpTimeout.")
	} else if e.HTTPTimeout.Duration > filterTimeoutLimit {
		c.advise("filter-timeout", at+".httpTimeout", fmt.Sprintf("httpTimeout of the filter entry is %s.", e.HTTPTimeout.Duration),
			"Filter is called inside the one scheduling loop: a call that hangs stops the scheduling of all pods for as long.",
			"Set httpTimeout: 5s in this entry.")
	}
	if e.Ignorable && !binds {
		c.advise("filter-ignorable", at+".ignorable", "The filter entry is ignorable: true.",
			"While prebind does not answer, pods are sent to nodes that their volumes cannot reach, and fail there only later.",
			"Set ignorable: false.")
	}
	if !e.NodeCacheCapable {
		c.advise("node-cache", at+".nodeCacheCapable", "nodeCacheCapable is not set.",
			"The scheduler sends every node as a whole object with each filter call: megabytes a pod in a large cluster, where prebind needs only the names.",
			"Set nodeCacheCapable: true.")
	}
	for j, s := range c.shapes {
		if s.on[filter] {
			c.advise("filters-twice", at+".filterVerb", fmt.Sprintf("prebind filters nodes, and in %s so does VolumeBinding.", c.profile(j)),
				"The same work is done twice for every pod.",
				"Disable VolumeBinding at filter, preScore, score, reserve and preBind in every profile (mode full), or remove the filter entry (mode bind).")
			break
		}
	}
	if e.PrioritizeVerb == "" && c.found.Mode == ModeFull && !c.prioritizes() {
		c.advise("prioritize-missing", at+".prioritizeVerb", "VolumeBinding is disabled at score, and no entry of prebind has a prioritizeVerb.",
			"Nodes are no longer compared by the storage that is left on them, so that claims fill up some nodes first.",
			"Add prioritizeVerb: prioritize and weight: 1 to this entry.")
	}
}

func (c *checker) prioritizes() bool {
	for _, e := range c.cfg.Extenders {
		if e.PrioritizeVerb == prioritizeVerb {
			return true
		}
	}
	return false
}

// checkUnfiltered finds profiles in which nobody looks at volumes when a node
// is chosen.
func (c *checker) checkUnfiltered() {
	for i, s := range c.shapes {
		if !s.on[filter] {
			c.fault("nobody-filters", profilePath(i)+".plugins.filter",
				fmt.Sprintf("In %s VolumeBinding is disabled at filter, and prebind has no entry with filterVerb.", c.profile(i)),
				"Nodes are chosen with no regard to volumes: pods are sent to nodes that their volumes cannot reach, fail there, and may be sent to the same node again.",
				"Mode bind: disable VolumeBinding at reserve and preBind only. Mode full: add an entry with filterVerb: filter (prebind scheduler-config --mode full --patch FILE).")
			return
		}
	}
}
