package server

import "encoding/json"

// resultWriter writes the answers that are long. Written by encoding/json they
// would take longer than all the rest of a call: maps are sorted, and what came
// as JSON is looked through again.
type resultWriter struct {
	out   []byte
	first bool
	// The last text that was quoted: reasons are few.
	text, quoted string
}

func (w *resultWriter) grow(n int) { w.out = make([]byte, 0, n+256) }

func (w *resultWriter) raw(text string)   { w.out = append(w.out, text...) }
func (w *resultWriter) bytes(json []byte) { w.out = append(w.out, json...) }

// begin opens the list of the nodes that fit.
func (w *resultWriter) begin(a *nodeArgs) {
	w.first = true
	if a.byName() {
		w.grow(2 * len(a.NodeNames))
		w.raw(`{"NodeNames":[`)
		return
	}
	size := 0
	for _, item := range a.Nodes.Items {
		size += len(item) + 1
	}
	w.grow(size)
	w.raw(`{"Nodes":{"metadata":{},"items":[`)
}

func (w *resultWriter) comma() {
	if !w.first {
		w.out = append(w.out, ',')
	}
	w.first = false
}

// item appends an element that is JSON.
func (w *resultWriter) item(json []byte) {
	w.comma()
	w.bytes(json)
}

// name appends an element that is a string.
func (w *resultWriter) name(text string) {
	w.comma()
	w.out = appendQuoted(w.out, text)
}

// pair appends a member of an object.
func (w *resultWriter) pair(key, value string) {
	w.comma()
	w.out = append(appendQuoted(w.out, key), ':')
	if value != w.text || w.quoted == "" {
		w.text, w.quoted = value, string(appendQuoted(nil, value))
	}
	w.raw(w.quoted)
}

// appendQuoted appends text as a JSON string.
func appendQuoted(out []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a string cannot fail
			return append(out, quoted...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}
