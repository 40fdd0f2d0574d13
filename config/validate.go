package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds that keep a forgotten unit from making every bind call fail, and every
// shutdown cut calls off.
const (
	minBindTimeout  = time.Second
	minDrainTimeout = time.Second
	// minFilterBytes is the size of a pod and of the names of a few hundred nodes.
	minFilterBytes = 64 << 10
)

// validate returns every mistake of meaning.
func validate(cfg *PrebindConfiguration, opts Options) field.ErrorList {
	var mistakes field.ErrorList
	if cfg.APIVersion != APIVersion {
		mistakes = append(mistakes, field.NotSupported(field.NewPath("apiVersion"), cfg.APIVersion, []string{APIVersion}))
	}
	if cfg.Kind != Kind {
		mistakes = append(mistakes, field.NotSupported(field.NewPath("kind"), cfg.Kind, []string{Kind}))
	}
	mistakes = append(mistakes, validateServer(field.NewPath("server"), cfg.Server)...)
	mistakes = append(mistakes, validateClientConnection(field.NewPath("clientConnection"), cfg.ClientConnection)...)
	mistakes = append(mistakes, validateVolumes(field.NewPath("volumes"), cfg.Volumes)...)
	mistakes = append(mistakes, validatePlugins(field.NewPath("plugins"), cfg.Plugins, opts.KnownPlugins)...)
	mistakes = append(mistakes, validateProvisioningLimit(field.NewPath("provisioningLimit"), cfg.ProvisioningLimit)...)
	mistakes = append(mistakes, validateEvents(field.NewPath("events"), cfg.Events)...)
	mistakes = append(mistakes, validateLogging(field.NewPath("logging"), cfg.Logging)...)
	mistakes = append(mistakes, validateTracing(field.NewPath("tracing"), cfg.Tracing)...)
	return mistakes
}

func validateServer(at *field.Path, s Server) field.ErrorList {
	mistakes := append(validateAddresses(at, s), validateTLS(at, s)...)
	if s.MaxBindCalls <= 0 {
		mistakes = append(mistakes, field.Invalid(at.Child("maxBindCalls"), s.MaxBindCalls, "must be greater than 0"))
	}
	if s.MaxFilterBytes < minFilterBytes {
		mistakes = append(mistakes, field.Invalid(at.Child("maxFilterBytes"), s.MaxFilterBytes, fmt.Sprintf("must be at least %d", minFilterBytes)))
	}
	if s.ShutdownDelay.Duration < 0 {
		mistakes = append(mistakes, field.Invalid(at.Child("shutdownDelay"), s.ShutdownDelay.String(), "must not be negative"))
	}
	if s.DrainTimeout.Duration < minDrainTimeout {
		mistakes = append(mistakes, field.Invalid(at.Child("drainTimeout"), s.DrainTimeout.String(), fmt.Sprintf("must be at least %s", minDrainTimeout)))
	}
	return mistakes
}

func validateClientConnection(at *field.Path, c ClientConnection) field.ErrorList {
	var mistakes field.ErrorList
	if c.QPS <= 0 {
		mistakes = append(mistakes, field.Invalid(at.Child("qps"), c.QPS, "must be greater than 0"))
	}
	if c.Burst <= 0 {
		mistakes = append(mistakes, field.Invalid(at.Child("burst"), c.Burst, "must be greater than 0"))
	}
	return mistakes
}

func validateVolumes(at *field.Path, v Volumes) field.ErrorList {
	var mistakes field.ErrorList
	if v.BindTimeout.Duration < minBindTimeout {
		mistakes = append(mistakes, field.Invalid(at.Child("bindTimeout"), v.BindTimeout.String(), fmt.Sprintf("must be at least %s", minBindTimeout)))
	}
	switch v.StaticCompletion {
	case StaticCompletionController, StaticCompletionDirect:
	default:
		mistakes = append(mistakes, field.NotSupported(at.Child("staticCompletion"), v.StaticCompletion, []StaticCompletion{StaticCompletionController, StaticCompletionDirect}))
	}
	return mistakes
}

func validateProvisioningLimit(at *field.Path, l ProvisioningLimit) field.ErrorList {
	const notNegative = "must not be negative; 0 is no limit"
	var mistakes field.ErrorList
	if l.PerClass < 0 {
		mistakes = append(mistakes, field.Invalid(at.Child("perClass"), l.PerClass, notNegative))
	}
	for _, class := range slices.Sorted(maps.Keys(l.Classes)) {
		child := at.Child("classes").Key(class)
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			mistakes = append(mistakes, field.Invalid(child, class, "must be the name of a StorageClass"))
		}
		if l.Classes[class] < 0 {
			mistakes = append(mistakes, field.Invalid(child, l.Classes[class], notNegative))
		}
	}
	return mistakes
}

func validateEvents(at *field.Path, e Events) field.ErrorList {
	if e.Bound && !e.Enabled {
		return field.ErrorList{field.Invalid(at.Child("bound"), e.Bound, "needs events.enabled: true")}
	}
	return nil
}

func validateLogging(at *field.Path, l Logging) field.ErrorList {
	var mistakes field.ErrorList
	levels := []LogLevel{LogLevelDebug, LogLevelInfo, LogLevelWarn, LogLevelError}
	if !slices.Contains(levels, l.Level) {
		mistakes = append(mistakes, field.NotSupported(at.Child("level"), l.Level, levels))
	}
	formats := []LogFormat{LogFormatJSON, LogFormatConsole}
	if !slices.Contains(formats, l.Format) {
		mistakes = append(mistakes, field.NotSupported(at.Child("format"), l.Format, formats))
	}
	return mistakes
}

func validatePlugins(at *field.Path, p Plugins, known *Plugins) field.ErrorList {
	if known == nil {
		known = &Plugins{}
	}
	var mistakes field.ErrorList
	for _, stage := range []struct {
		key          string
		names, known []string
		// needsVolumes marks the stages that VolumeBinding must be part of.
		needsVolumes bool
	}{
		{key: "permit", names: p.Permit, known: known.Permit},
		{key: "reserve", names: p.Reserve, known: known.Reserve, needsVolumes: true},
		{key: "preBind", names: p.PreBind, known: known.PreBind, needsVolumes: true},
		{key: "bind", names: p.Bind, known: known.Bind},
		{key: "postBind", names: p.PostBind, known: known.PostBind},
	} {
		child := at.Child(stage.key)
		mistakes = append(mistakes, validateNames(child, stage.names, stage.known)...)
		if stage.needsVolumes && !slices.Contains(stage.names, PluginVolumeBinding) {
			mistakes = append(mistakes, field.Required(child,
				"must contain VolumeBinding (it belongs in both reserve and preBind): without it pods would be bound with unbound claims"))
		}
	}
	if len(p.Bind) == 0 {
		mistakes = append(mistakes, field.Required(at.Child("bind"), "must name a plugin that posts the Binding, such as DefaultBinder"))
	}
	return mistakes
}

// validateNames checks one stage's list. A nil known means any name.
func validateNames(at *field.Path, names, known []string) field.ErrorList {
	var mistakes field.ErrorList
	for i, name := range names {
		switch {
		case name == "":
			mistakes = append(mistakes, field.Required(at.Index(i), "must be a plugin's name"))
		case slices.Contains(names[:i], name):
			mistakes = append(mistakes, field.Duplicate(at.Index(i), name))
		case known != nil && !slices.Contains(known, name):
			mistakes = append(mistakes, field.NotSupported(at.Index(i), name, known))
		}
	}
	return mistakes
}
