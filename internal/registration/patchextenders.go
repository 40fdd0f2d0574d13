package registration

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"

	yaml "go.yaml.in/yaml/v3"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// patchExtenders brings prebind's entries to what o says.
func (f *file) patchExtenders(o Options) error {
	binder, filters, err := f.entries(o)
	if err != nil {
		return err
	}
	if o.Mode == ModeNone {
		f.dropEntries(append(filters, binder))
		return nil
	}
	if binder < 0 && o.URL == "" {
		return errors.New("the file has no entry of prebind, and no URL is given to make one")
	}
	list := open(f.root, "extenders", yaml.SequenceNode)
	bind := &yaml.Node{Kind: yaml.MappingNode}
	old := configv1.Extender{}
	if binder >= 0 {
		bind, old = list.Content[binder], f.cfg.Extenders[binder]
	} else {
		list.Content = append(list.Content, bind)
	}
	if err := patchTransport(bind, o); err != nil {
		return err
	}
	patchBind(bind, old, o)
	return f.patchFilter(list, bind, filters, o)
}

// entries finds prebind's entries: the index of the one that binds (-1: none)
// and of those that only filter or score. Another extender that binds is in the
// way of all modes but ModeNone.
func (f *file) entries(o Options) (binder int, filters []int, err error) {
	url := o.URL
	binder, known := -1, url
	for i, e := range f.cfg.Extenders {
		switch {
		case e.BindVerb == "":
		case !looksLikePrebind(e.URLPrefix, e.TLSConfig, "") && (url == "" || !looksLikePrebind(e.URLPrefix, e.TLSConfig, url)):
			if o.Mode == ModeNone {
				continue
			}
			return 0, nil, fmt.Errorf("%sextenders[%d] (%s) binds already and is not prebind's: only one extender can bind, take its bindVerb out first",
				line(f.root, extenderPath(i)), i, e.URLPrefix)
		case binder >= 0:
			return 0, nil, fmt.Errorf("%sextenders[%d] and extenders[%d] both bind: remove one of them first", line(f.root, extenderPath(i)), binder, i)
		default:
			binder, known = i, e.URLPrefix
		}
	}
	for i, e := range f.cfg.Extenders {
		mine := known != "" && looksLikePrebind(e.URLPrefix, e.TLSConfig, known) || url != "" && looksLikePrebind(e.URLPrefix, e.TLSConfig, url)
		if e.BindVerb == "" && mine {
			filters = append(filters, i)
		}
	}
	return binder, filters, nil
}

// dropEntries removes entries, and the list when it is empty then.
func (f *file) dropEntries(indices []int) {
	list := child(f.root, "extenders")
	for _, i := range slices.Backward(slices.Sorted(slices.Values(indices))) {
		if i >= 0 {
			list.Content = slices.Delete(list.Content, i, i+1)
			tidy(f.root, "extenders")
		}
	}
}

// patchTransport sets where an entry calls and how it knows who answers. Without
// a URL all that stays.
func patchTransport(entry *yaml.Node, o Options) error {
	if o.URL == "" {
		return nil
	}
	set(entry, "urlPrefix", text(o.URL))
	if !o.https() {
		remove(entry, "tlsConfig")
		if child(entry, "enableHTTPS") != nil {
			set(entry, "enableHTTPS", truth(false))
		}
		return nil
	}
	set(entry, "enableHTTPS", truth(true))
	tls := open(entry, "tlsConfig", yaml.MappingNode)
	remove(tls, "insecure")
	if o.hasCA() {
		replace(tls, map[string]string{"caFile": o.CAFile, "caData": base64.StdEncoding.EncodeToString(o.CAData)}, "caFile", "caData")
	}
	if o.CertFile != "" {
		replace(tls, map[string]string{"certFile": o.CertFile}, "certFile", "certData")
		replace(tls, map[string]string{"keyFile": o.KeyFile}, "keyFile", "keyData")
	}
	if o.ServerName != "" {
		set(tls, "serverName", text(o.ServerName))
	}
	if child(tls, "caFile") == nil && child(tls, "caData") == nil {
		return errNoCA()
	}
	return nil
}

// replace sets those keys that have a value and removes the others.
func replace(mapping *yaml.Node, values map[string]string, keys ...string) {
	for _, key := range keys {
		if values[key] == "" {
			remove(mapping, key)
		} else {
			set(mapping, key, text(values[key]))
		}
	}
}

// patchBind makes an entry one that binds, and only that. What is there and does
// no harm stays.
func patchBind(entry *yaml.Node, old configv1.Extender, o Options) {
	set(entry, "bindVerb", text(bindVerb))
	for _, key := range []string{"filterVerb", "prioritizeVerb", "preemptVerb", "weight", "managedResources"} {
		remove(entry, key)
	}
	switch {
	case o.HTTPTimeout != 0 && o.HTTPTimeout != old.HTTPTimeout.Duration:
		set(entry, "httpTimeout", text(short(o.HTTPTimeout)))
	case o.HTTPTimeout == 0 && old.HTTPTimeout.Duration < DefaultHTTPTimeout:
		set(entry, "httpTimeout", text(short(DefaultHTTPTimeout)))
	}
	if old.Ignorable || child(entry, "ignorable") == nil {
		set(entry, "ignorable", truth(false))
	}
	if !old.NodeCacheCapable {
		set(entry, "nodeCacheCapable", truth(true))
	}
}

// patchFilter brings the entry that filters to what the mode wants: one before
// the one that binds, or none.
func (f *file) patchFilter(list, bind *yaml.Node, filters []int, o Options) error {
	if o.Mode != ModeFull {
		f.dropEntries(filters)
		return nil
	}
	if len(filters) > 1 {
		return fmt.Errorf("%sextenders[%d] and extenders[%d] are both prebind's and do not bind: remove one of them first", line(f.root, extenderPath(filters[1])), filters[0], filters[1])
	}
	var entry *yaml.Node
	if len(filters) == 1 {
		entry = list.Content[filters[0]]
	} else {
		entry = like(bind)
		list.Content = slices.Insert(list.Content, slices.Index(list.Content, bind), entry)
	}
	if err := patchTransport(entry, o); err != nil {
		return err
	}
	set(entry, "filterVerb", text(filterVerb))
	set(entry, "prioritizeVerb", text(prioritizeVerb))
	if weight, _ := strconv.ParseInt(scalar(entry, "weight"), 0, 64); weight <= 0 {
		set(entry, "weight", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "1"})
	}
	if child(entry, "httpTimeout") == nil {
		set(entry, "httpTimeout", text(short(filterTimeout)))
	}
	if scalar(entry, "nodeCacheCapable") != "true" {
		set(entry, "nodeCacheCapable", truth(true))
	}
	return nil
}

// like returns a new entry that calls the same place in the same way.
func like(bind *yaml.Node) *yaml.Node {
	entry := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range []string{"urlPrefix", "enableHTTPS", "tlsConfig"} {
		if value := child(bind, key); value != nil {
			set(entry, key, clone(value))
		}
	}
	return entry
}

// clone copies a tree without its comments.
func clone(node *yaml.Node) *yaml.Node {
	other := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value, Style: node.Style}
	for _, inner := range node.Content {
		other.Content = append(other.Content, clone(inner))
	}
	return other
}
