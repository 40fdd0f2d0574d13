package volumes

import "slices"

// byLabels finds, for the labels of a node, the items that may reach it,
// without a look at the others. An item is reached by way of its terms, any of
// which will do. A term that asks for one of some values of a label is filed
// under these; one that asks for nothing of the kind makes its item one that is
// tried everywhere. What is found still has to be judged: a term may ask for more.
//
// Nothing is kept for a node, so neither a new node nor new labels change
// anything here.
type byLabels[T comparable] struct {
	values   map[string]map[string][]T // label -> value -> items
	anywhere map[T]struct{}
	version  int // counts changes of the set of labels
}

// oneOf is what a term asks of a label: any of the values.
type oneOf struct {
	label  string
	values []string
}

// place is where an item is filed. The zero place is anywhere.
type place struct{ label, value string }

func newByLabels[T comparable]() *byLabels[T] {
	return &byLabels[T]{values: map[string]map[string][]T{}, anywhere: map[T]struct{}{}}
}

// add files the item, and returns where, for remove. Each term is a list of what
// it asks for, all of it.
func (b *byLabels[T]) add(item T, terms [][]oneOf) []place {
	places := make([]place, 0, len(terms))
	for _, term := range terms {
		best, ok := b.rarest(term)
		if !ok {
			b.anywhere[item] = struct{}{}
			return []place{{}}
		}
		for _, value := range best.values {
			places = append(places, place{best.label, value})
		}
	}
	for i, at := range places {
		if slices.Contains(places[:i], at) {
			continue // two terms, or a value twice
		}
		if b.values[at.label] == nil {
			b.values[at.label] = map[string][]T{}
			b.version++
		}
		b.values[at.label][at.value] = append(b.values[at.label][at.value], item)
	}
	return places
}

// rarest returns what a node that other items are for is the least likely to
// have. By it a volume that is in a zone and on a host of it is found by the
// host: where all others of the zone are, more would have to be judged.
func (b *byLabels[T]) rarest(term []oneOf) (best oneOf, ok bool) {
	least := 0
	for _, asked := range term {
		cost := len(asked.values)
		for _, value := range asked.values {
			cost += len(b.values[asked.label][value])
		}
		if !ok || cost < least {
			best, least, ok = asked, cost, true
		}
	}
	return best, ok
}

// remove undoes add.
func (b *byLabels[T]) remove(item T, places []place) {
	delete(b.anywhere, item)
	for _, at := range places {
		values := b.values[at.label]
		i := slices.Index(values[at.value], item)
		if i < 0 {
			continue
		}
		if values[at.value] = slices.Delete(values[at.value], i, i+1); len(values[at.value]) == 0 {
			delete(values, at.value)
		}
		if len(values) == 0 {
			delete(b.values, at.label)
			b.version++
		}
	}
}

func (b *byLabels[T]) empty() bool { return len(b.values) == 0 && len(b.anywhere) == 0 }

// visit calls yield with each item that a node with these labels may reach,
// until it returns false. An item that is filed in many places may come again.
func (b *byLabels[T]) visit(labels map[string]string, yield func(T) bool) {
	for item := range b.anywhere {
		if !yield(item) {
			return
		}
	}
	for label, values := range b.values {
		value, ok := labels[label]
		if !ok {
			continue
		}
		for _, item := range values[value] {
			if !yield(item) {
				return
			}
		}
	}
}
