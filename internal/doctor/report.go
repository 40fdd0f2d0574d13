package doctor

// Status is how a check ended: with the worst of its findings.
type Status string

const (
	// OK says that nothing was found.
	OK Status = "ok"
	// Advice says that it works, but not as well or not as long as it could. Also the
	// severity of a finding.
	Advice Status = "advice"
	// Fault says that pods fail, hang, or start without their volumes, now or the next
	// time that something happens. Also the severity of a finding.
	Fault Status = "fault"
	// Skipped says that what the check needs is not there; its summary says why.
	Skipped Status = "skipped"
)

// Finding is one thing that a check found, in words for somebody who has read
// nothing else.
type Finding struct {
	// Severity is Fault or Advice.
	Severity Status `json:"severity"`
	// Object is what it is about: a file with a path in it, an object of the
	// cluster as resource and name, or a URL.
	Object string `json:"object"`
	What   string `json:"what"`
	Why    string `json:"why"`
	Mend   string `json:"mend"`
}

// Result is what one check found.
type Result struct {
	// Name of the check, in kebab case; it never changes its meaning.
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Summary says in a line what was looked at, or why nothing was.
	Summary string `json:"summary"`
	// Findings are in the order in which they should be mended; never nil.
	Findings []Finding `json:"findings"`
}

// Report is the result of all checks, in a fixed order.
type Report struct {
	Checks []Result `json:"checks"`
	// Faults and Advice count the findings of each severity.
	Faults int `json:"faults"`
	Advice int `json:"advice"`
}

// add appends the result of a check.
func (r *Report) add(name string, o outcome) {
	result := Result{Name: name, Status: OK, Summary: o.summary, Findings: o.findings}
	if result.Findings == nil {
		result.Findings = []Finding{}
	}
	if o.skipped {
		result.Status = Skipped
	}
	for _, finding := range o.findings {
		switch finding.Severity {
		case Fault:
			r.Faults++
			result.Status = Fault
		default:
			r.Advice++
			if result.Status != Fault {
				result.Status = Advice
			}
		}
	}
	r.Checks = append(r.Checks, result)
}
