package registration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// resolved follows an alias to what it stands for.
func resolved(node *yaml.Node) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// child returns the value of a key of a mapping; nil when there is none, or no
// mapping.
func child(mapping *yaml.Node, key string) *yaml.Node {
	if i := position(mapping, key); i >= 0 {
		return resolved(resolved(mapping).Content[i+1])
	}
	return nil
}

// position returns where a key stands in a mapping's content; -1 for nowhere.
func position(mapping *yaml.Node, key string) int {
	mapping = resolved(mapping)
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// scalar returns the text of a key's value; empty when it is absent or no
// scalar.
func scalar(mapping *yaml.Node, key string) string {
	if node := child(mapping, key); node != nil && node.Kind == yaml.ScalarNode && node.Tag != "!!null" {
		return node.Value
	}
	return ""
}

// items returns the elements of a sequence; none for anything else.
func items(sequence *yaml.Node) []*yaml.Node {
	sequence = resolved(sequence)
	if sequence == nil || sequence.Kind != yaml.SequenceNode {
		return nil
	}
	return sequence.Content
}

// set puts a value under a key: in place of the old one, or at the end.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	if i := position(mapping, key); i >= 0 {
		if old := mapping.Content[i+1]; old.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode {
			value.LineComment, value.HeadComment, value.FootComment = old.LineComment, old.HeadComment, old.FootComment
		}
		mapping.Content[i+1] = value
		return
	}
	mapping.Content = append(mapping.Content, text(key), value)
}

// remove takes a key out of a mapping.
func remove(mapping *yaml.Node, key string) {
	if i := position(mapping, key); i >= 0 {
		mapping.Content = slices.Delete(mapping.Content, i, i+2)
	}
}

// open returns the mapping or sequence under a key, made if it is absent or
// null.
func open(mapping *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	node := child(mapping, key)
	if node == nil || node.Kind != kind {
		node = &yaml.Node{Kind: kind}
		set(mapping, key, node)
	}
	return node
}

// block writes nodes over lines, rather than in braces: in these a comment
// cannot stand.
func block(nodes ...*yaml.Node) {
	for _, node := range nodes {
		node.Style &^= yaml.FlowStyle
	}
}

// text returns a scalar node that holds a string.
func text(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	return node
}

// truth returns a scalar node that holds a boolean.
func truth(value bool) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value)}
}

// join puts a key behind a path.
func join(at, key string) string {
	if at == "" || key == "" {
		return at + key
	}
	return at + "." + key
}

// line names the line of what stands at a path such as "profiles[0].plugins",
// as the beginning of a message. The indices may be left out, then the first
// fitting place is named; empty if there is none.
func line(root *yaml.Node, path string) string {
	nodes := []*yaml.Node{root}
	number := root.Line
	for segment := range strings.SplitSeq(path, ".") {
		key, index, indexed := strings.Cut(strings.TrimSuffix(segment, "]"), "[")
		var next []*yaml.Node
		for _, node := range nodes {
			i := position(node, key)
			if i < 0 {
				continue
			}
			if len(next) == 0 {
				number = resolved(node).Content[i].Line
			}
			value := resolved(node).Content[i+1]
			elements := items(value)
			switch n, err := strconv.Atoi(index); {
			case indexed && err == nil && n < len(elements):
				next = append(next, elements[n])
			case len(elements) > 0:
				next = append(next, elements...)
			default:
				next = append(next, value)
			}
		}
		if len(next) == 0 {
			return ""
		}
		nodes = next
	}
	return fmt.Sprintf("line %d: ", number)
}
