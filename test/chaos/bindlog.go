package chaos

// bindCalls sums up the log lines of bind calls. Metrics would not do: they
// begin anew each time a replica is killed.
type bindCalls struct {
	outcomes map[string]int // bound, alreadyBound, or the code of the error
	retries  int            // calls for a pod that was tried before
}

// countCalls reads the replicas' logs.
func countCalls(replicas []*replica) (bindCalls, error) {
	calls := bindCalls{outcomes: map[string]int{}}
	tried := map[any]bool{} // by UID
	for _, r := range replicas {
		lines, err := r.prebind.Logs()
		if err != nil {
			return calls, err
		}
		for _, line := range lines {
			calls.count(line, tried)
		}
	}
	return calls, nil
}

func (c *bindCalls) count(line map[string]any, tried map[any]bool) {
	outcome, isCall := line["outcome"].(string)
	if !isCall || line["joined"] == true {
		return
	}
	if reason, ok := line["reason"].(string); ok {
		outcome = reason
	}
	c.outcomes[outcome]++
	if tried[line["uid"]] {
		c.retries++
	}
	tried[line["uid"]] = true
}
