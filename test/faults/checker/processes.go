package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Process is what is known of a process after the run; see names.py. Times
// that never come are the greatest.
type Process struct {
	Label string `json:"label"`
	Home  int    `json:"home"`
	// From when on what it has in the part may be removed, without a step of
	// a client.
	Free int64 `json:"free"`
	// From when on it may have ended, and when it certainly had.
	Dead [2]int64 `json:"dead"`
	// From when on its session may have ended.
	Lost int64 `json:"lost"`
	// Its name is registered again if its session was lost.
	Again bool `json:"again"`
	// When it may have joined the group, besides the joins that are known.
	joins []int64
}

// hasEnded is true if it had ended before a time.
func (p Process) hasEnded(before int64) bool {
	return p.Dead[1] < before
}

// processes are those of a part, by their labels.
type processes map[string]Process

// Processes separates what is known of the processes of a part from the
// operations.
func Processes(part []Operation) (processes, []Operation) {
	known, operations := processes{}, []Operation(nil)
	for _, o := range part {
		if o.Process != nil {
			known[o.Process.Label] = *o.Process
		} else {
			operations = append(operations, o)
		}
	}
	return known, operations
}

// Named applies the rules of names (n) or groups (m) to a part. It also returns
// whether a read has seen a part of a join or leave of several processes.
func Named(kind string, known processes, operations []Operation, limit time.Duration, boundNs int64) (porcupine.CheckResult, bool, []string) {
	var complaints []string
	for _, o := range operations {
		for _, label := range labelsOf(o) {
			if _, isKnown := known[label]; !isKnown {
				complaints = append(complaints, fmt.Sprintf("nobody started it: (%s)", describe(o)))
			}
		}
	}
	if len(complaints) > 0 {
		return porcupine.Illegal, false, complaints
	}
	for _, o := range operations {
		if o.Outcome == "unknown" && o.Steps[0].Do == "join" {
			for _, label := range strings.Fields(o.Steps[0].With) {
				process := known[label]
				process.joins = append(process.joins, o.Call)
				known[label] = process
			}
		}
	}
	inOrder, unseen := orderedNamed(known, operations)
	start, step, reads := interface{}(owned{}), stepOfName(known, unseen), nameReads
	if kind == "m" {
		start, step, reads = joined(""), stepOfGroup(known), groupReads
	}
	search := func(some []porcupine.Operation) porcupine.CheckResult {
		order, _ := porcupine.CheckOperationsVerbose(porcupine.Model{
			Init: func() interface{} { return start },
			Step: func(before, input, _ interface{}) (bool, interface{}) {
				return step(before, input.(Operation))
			},
		}, some, limit)
		return order
	}
	order, isHalf := search(inOrder), false
	if order == porcupine.Illegal && kind == "m" {
		order = search(halves(inOrder))
		isHalf = order == porcupine.Ok
	}
	if order == porcupine.Illegal {
		complaints = append(complaints, "no order explains the answers")
	}
	complaints = append(complaints, Sessions(operations, boundNs)...)
	return order, isHalf, append(complaints, reads(known, operations, boundNs)...)
}

// halves are the operations with a step for each process of a join or leave. A
// read of a group looks up one member after the other, so it may see a part of
// what the node is writing at that moment.
func halves(operations []porcupine.Operation) []porcupine.Operation {
	var found []porcupine.Operation
	for _, each := range operations {
		o := each.Input.(Operation)
		step := o.Steps[0]
		labels := strings.Fields(step.With)
		if step.Do != "join" && step.Do != "leave" || len(labels) < 2 {
			found = append(found, each)
			continue
		}
		for _, label := range labels {
			one := step
			one.With = label
			if step.Do == "leave" && *step.Saw == "ok" {
				one.Do = "leave_any"
			}
			o.Steps = []Step{one}
			found = append(found, porcupine.Operation{ClientId: each.ClientId, Input: o, Call: each.Call, Return: each.Return})
		}
	}
	return found
}

// orderedNamed are the operations that have a place in one order, and when
// somebody of whom no client has heard may have had a name.
//
// An unknown removal has no place: what it may have removed is free from its
// beginning on, which is a fact of its processes, and so is what an unknown join
// may have added. An unknown registration has a place if its process was seen:
// before the end of the first read that saw it. So each operation has an end,
// and the search is short.
func orderedNamed(known processes, operations []Operation) ([]porcupine.Operation, guests) {
	found, unseen := []porcupine.Operation(nil), guests{first: math.MaxInt64, anyone: math.MaxInt64}
	firstSeen := map[string]int64{}
	for _, o := range operations {
		if o.Outcome == "done" && o.IsRead() {
			for _, label := range seen(o.Steps[0]) {
				if end, is := firstSeen[label]; !is || o.Return < end {
					firstSeen[label] = o.Return
				}
			}
		}
	}
	for _, o := range operations {
		if o.Outcome == "failed" || !o.IsOrdered() || o.Outcome == "unknown" && o.IsRead() {
			continue
		}
		step := o.Steps[0]
		switch {
		case step.Do == "unregister_any" && o.Outcome == "unknown":
			unseen.anyone = earlier(unseen.anyone, o.Call)
			continue
		case (step.Do == "join" || step.Do == "leave" || step.Do == "unregister") && o.Outcome == "unknown":
			continue
		case o.Outcome == "unknown" || mayHaveHad(known, operations, o):
			if end, isSeen := firstSeen[step.With]; isSeen {
				if o.Outcome == "done" {
					end = earlier(end, o.Return)
				}
				o.Outcome, o.Return = "unknown", end
				break
			}
			unseen.first = earlier(unseen.first, o.Call)
			if o.Outcome == "unknown" {
				continue
			}
		}
		found = append(found, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return})
	}
	return found, unseen
}

// guests are owners that no client has seen.
type guests struct {
	// From when on one may have had the name.
	first int64
	// From when on any owner may have lost it to an unknown removal.
	anyone int64
}

// mayHaveHad is true if the process of a refused registration may have had the
// name until somebody removed it, before the answer came.
func mayHaveHad(known processes, operations []Operation, o Operation) bool {
	step := o.Steps[0]
	if o.Outcome != "done" || (step.Do != "register" && step.Do != "move") || *step.Saw != "no" {
		return false
	}
	if known[step.With].Free <= o.Return {
		return true
	}
	for _, other := range operations {
		isAny := len(other.Steps) > 0 && other.Steps[0].Do == "unregister_any" && other.Outcome != "failed"
		if isAny && other.Call <= o.Return && (other.Outcome == "unknown" || other.Return >= o.Call) {
			return true
		}
	}
	return false
}

// labelsOf are the processes of an operation.
func labelsOf(o Operation) []string {
	var found []string
	for _, step := range o.Steps {
		switch step.Do {
		case "register", "move", "join", "leave":
			found = append(found, strings.Fields(step.With)...)
		case "lookup", "owner", "members":
			found = append(found, seen(step)...)
		}
	}
	return found
}

// answeredReads are the operations that only read and have an answer.
func answeredReads(operations []Operation) []Operation {
	var found []Operation
	for _, o := range operations {
		if o.Outcome == "done" && o.IsRead() && o.Steps[0].Saw != nil {
			found = append(found, o)
		}
	}
	return found
}

// aboutLabel is a complaint about a process in the answer to an operation.
func aboutLabel(rule, label string, o Operation) string {
	return fmt.Sprintf("%s: %s by (%s)", rule, label, describe(o))
}

// seen are the processes that a read saw.
func seen(step Step) []string {
	if step.Saw == nil || *step.Saw == Absent {
		return nil
	}
	words := strings.Fields(*step.Saw)
	if step.Do == "lookup" {
		return words[:1]
	}
	return words
}

// token is the token that a step saw.
func token(step Step) (int64, bool) {
	words := strings.Fields(*step.Saw)
	switch step.Do {
	case "register", "move", "lookup":
		number, err := strconv.ParseInt(words[len(words)-1], 10, 64)
		return number, err == nil
	}
	return 0, false
}

// age is how old the records may be that a read has seen.
func age(o Operation, boundNs int64) int64 {
	switch o.Level {
	case "bounded":
		return boundNs
	case "copied":
		return 2 * boundNs
	}
	return 0
}

// later is the later one of two times.
func later(one, other int64) int64 {
	if one > other {
		return one
	}
	return other
}

// earlier is the earlier one.
func earlier(one, other int64) int64 {
	if one < other {
		return one
	}
	return other
}
