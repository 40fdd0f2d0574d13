package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/prebind/prebind/volumes"
)

// few and many are how many lines of nodes are shown, if nobody asked for all, and if
// somebody did.
const (
	few  = 10
	many = 100
)

// WriteText writes the report for people: the answer first, then what to do, then
// all that it rests on.
func (r *Report) WriteText(w io.Writer) error {
	out := &text{now: r.Time}
	out.printf("%s\n", wrap("Pod "+r.Pod+": "+r.Verdict, 2))
	out.printf("Next: %s\n\n", wrap(r.Next, 6))
	r.head(out)
	r.table(out)
	for i := range r.Claims {
		r.Claims[i].text(out, r)
	}
	r.Nodes.text(out, r)
	if len(r.Events) > 0 {
		out.section("Events of the pod")
		for _, line := range out.events(r.Events) {
			out.line(line)
		}
	}
	if len(r.Missing) > 0 {
		out.section("Not known")
		for _, line := range r.Missing {
			out.line(line)
		}
	}
	return out.writeTo(w)
}

// head says where the pod is, and which nodes were looked at.
func (r *Report) head(out *text) {
	where := "on no node"
	if r.Node != "" {
		where = "on node " + r.Node
	}
	out.item("pod", fmt.Sprintf("%s, %s, created %s", dash(r.Phase), where, ago(r.Time, r.Created)))
	if r.Scheduled != nil {
		out.item("scheduler", fmt.Sprintf("%s  %s: %s", ago(r.Time, r.Scheduled.Since), r.Scheduled.Reason, oneLine(r.Scheduled.Message)))
	}
	switch {
	case len(r.Claims) == 0:
	case r.Target.Node != "":
		out.item("looked at", fmt.Sprintf("node %s: %s", r.Target.Node, r.Target.Why))
	default:
		out.item("looked at", "all nodes: "+r.Target.Why)
	}
}

// table has a line for each claim.
func (r *Report) table(out *text) {
	if len(r.Claims) == 0 {
		return
	}
	header := []string{"CLAIM", "STATE", "VOLUME", "SIZE", "ACCESS MODES", "STORAGECLASS", "BINDING MODE"}
	if r.Target.Node != "" {
		header = append(header, "ON NODE "+r.Target.Node)
	}
	lines := [][]string{header}
	for i := range r.Claims {
		c := &r.Claims[i]
		line := []string{short(c.Claim), c.State, dash(c.Volume), dash(c.Size), dash(abbreviated(c.AccessModes)), dash(c.Class), dash(c.BindingMode)}
		if r.Target.Node != "" {
			on := "unknown"
			if c.OnNode != nil {
				on = c.OnNode.short()
			}
			line = append(line, on)
		}
		lines = append(lines, line)
	}
	out.printf("\n")
	out.table("", lines)
}

// text tells of the claim what the table does not, if there is anything.
func (c *Claim) text(out *text, r *Report) {
	if len(c.Reasons) == 0 && c.Next == "" && c.State == string(volumes.StateBound) {
		return
	}
	out.section("Claim " + short(c.Claim))
	if c.WaitsFor != "" {
		out.item("waits for", c.WaitsFor)
	}
	out.items("why", c.why(&r.Nodes))
	if found := c.Candidates; found != nil {
		out.items("volumes", append([]string{found.String()}, found.refusals()...))
	}
	out.items("events", out.events(c.Events))
	if c.Next != "" && c.Next != r.Next {
		out.item("next", c.Next)
	}
}

// why are the reasons that nothing else in the text tells.
func (c *Claim) why(nodes *Nodes) []string {
	switch {
	case c.OnNode != nil && c.OnNode.Reason != "":
		return []string{c.OnNode.Reason}
	case len(nodes.Nodes) > 0: // their table tells
		return nil
	}
	said := c.Candidates.texts()
	return slices.DeleteFunc(slices.Clone(c.Reasons), func(reason string) bool {
		return strings.HasPrefix(reason, warningPrefix) || strings.HasPrefix(reason, waitsPrefix) || slices.Contains(said, reason)
	})
}

// text sums up the nodes, and lists the closest.
func (n *Nodes) text(out *text, r *Report) {
	if r.Target.Node != "" || len(r.Claims) == 0 || n.Considered+n.LeftOut == 0 {
		return
	}
	head := fmt.Sprintf("Nodes: %d of %d fit", n.Fitting, n.Considered)
	if n.Unknown > 0 {
		head += fmt.Sprintf(", of %d it is not known", n.Unknown)
	}
	if n.LeftOut > 0 {
		head += fmt.Sprintf("; the pod's own nodeSelector or node affinity rules out %d more", n.LeftOut)
	}
	out.section(head)
	for _, count := range n.Reasons {
		out.line(fmt.Sprintf("%d of %d: %s", count.Count, n.Considered, count.Reason))
	}
	if n.Considered == 0 {
		return
	}
	limit := few
	if r.Target.Why == allNodesAsked {
		limit = many
	}
	lines, left := n.lines(limit)
	out.table("  ", append([][]string{{"NODE", "FITS", "REFUSED BY", "CLAIMS"}}, lines...))
	if left > 0 {
		out.line("and " + plural(left, "more node") + "; -o json has all")
	}
}

// lines are the nodes in the order of how close they are, those that follow each
// other with the same outcomes in one line; left is how many nodes are in no line.
func (n *Nodes) lines(limit int) (lines [][]string, left int) {
	counts := []int{}
	for _, node := range n.Nodes {
		claims := make([]string, 0, len(node.Claims))
		for _, o := range node.Claims {
			claims = append(claims, short(o.Claim)+": "+o.short())
		}
		line := []string{node.Node, node.Fits, fmt.Sprintf("%d of %d", node.Refused, len(node.Claims)), strings.Join(claims, "; ")}
		last := len(lines) - 1
		switch {
		case last >= 0 && node.Fits != yes && line[3] == lines[last][3]:
			counts[last]++
		case len(lines) == limit:
			left++
		default:
			lines, counts = append(lines, line), append(counts, 1)
		}
	}
	for i, count := range counts {
		if count > 1 {
			lines[i][0] += fmt.Sprintf(" and %d more", count-1)
		}
	}
	return lines, left
}

// short says it in a few words.
func (o *Outcome) short() string {
	switch volumes.OutcomeKind(o.Outcome) {
	case volumes.OutcomeBound:
		return "bound"
	case volumes.OutcomeBinding:
		return "binding to " + o.Volume
	case volumes.OutcomeBind:
		return "bind to " + o.Volume
	case volumes.OutcomeProvision:
		return "provision by " + o.Provisioner
	case volumes.OutcomeRefused:
		return "refused: " + o.Code
	}
	return o.Outcome
}

// short takes the namespace off: it is the pod's.
func short(name string) string {
	_, after, _ := strings.Cut(name, "/")
	return after
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// abbreviated writes access modes as kubectl does.
func abbreviated(modes []string) string {
	texts := make([]string, 0, len(modes))
	for _, mode := range modes {
		switch v1.PersistentVolumeAccessMode(mode) {
		case v1.ReadWriteOnce:
			mode = "RWO"
		case v1.ReadOnlyMany:
			mode = "ROX"
		case v1.ReadWriteMany:
			mode = "RWX"
		case v1.ReadWriteOncePod:
			mode = "RWOP"
		}
		texts = append(texts, mode)
	}
	return strings.Join(texts, ",")
}
