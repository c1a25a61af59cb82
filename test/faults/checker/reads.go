package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// progress is how far the value of a counter or text has come: both only grow.
//
// So does the token of a name.
func progress(kind string, step Step) (int64, bool) {
	if step.Saw != nil && kind == "n" {
		return token(step)
	}
	if step.Saw == nil || (kind != "c" && kind != "t") {
		return 0, false
	}
	saw := *step.Saw
	if saw == Absent {
		return 0, step.Do == "get"
	}
	if kind == "t" && step.Do == "get" {
		return int64(len(saw)), true
	}
	number, err := strconv.ParseInt(saw, 10, 64)
	return number, err == nil
}

// moment is the time at which some progress was known.
type moment struct {
	at    int64
	value int64
	who   Operation
}

// known answers for the most progress that was known before a time.
type known []moment

func (k known) before(at int64) (moment, bool) {
	end := sort.Search(len(k), func(i int) bool { return k[i].at >= at })
	if end == 0 {
		return moment{}, false
	}
	return k[end-1], true
}

// newKnown sorts moments, and makes each the most of all up to it.
func newKnown(moments []moment) known {
	sort.Slice(moments, func(i, j int) bool { return moments[i].at < moments[j].at })
	for i := 1; i < len(moments); i++ {
		if moments[i-1].value > moments[i].value {
			moments[i].value, moments[i].who = moments[i-1].value, moments[i-1].who
		}
	}
	return moments
}

// Sessions checks what reads promise that are in no order with the writes: a
// connection sees its own writes and goes never back, nor does a node as long
// as it remembers; and a `bounded` read sees all that was confirmed a while
// before.
func Sessions(part []Operation, boundNs int64) []string {
	var complaints []string
	var written []moment
	byConnection, byNode := map[string][]moment{}, map[[2]int][]moment{}
	for _, o := range part {
		if o.Outcome != "done" || len(o.Steps) != 1 {
			continue
		}
		value, isKnown := progress(o.Kind(), o.Steps[0])
		if !isKnown {
			continue
		}
		now := moment{o.Return, value, o}
		byConnection[o.Connection] = append(byConnection[o.Connection], now)
		byNode[o.memory()] = append(byNode[o.memory()], now)
		if !o.IsRead() {
			written = append(written, now)
		}
	}
	connections, nodes, confirmed := map[string]known{}, map[[2]int]known{}, newKnown(written)
	for name, moments := range byConnection {
		connections[name] = newKnown(moments)
	}
	for memory, moments := range byNode {
		nodes[memory] = newKnown(moments)
	}
	for _, o := range part {
		if o.Outcome != "done" || !o.IsRead() || len(o.Steps) != 1 {
			continue
		}
		value, isKnown := progress(o.Kind(), o.Steps[0])
		if !isKnown {
			continue
		}
		complain := func(rule string, earlier moment) {
			complaints = append(complaints, fmt.Sprintf(
				"%s: (%s) saw %d, %d ms after (%s) had %d", rule, describe(o), value,
				(o.Call-earlier.at)/1_000_000, describe(earlier.who), earlier.value,
			))
		}
		if earlier, ok := connections[o.Connection].before(o.Call); ok && earlier.value > value {
			complain("a connection went back", earlier)
		}
		if earlier, ok := nodes[o.memory()].before(o.Call); ok && earlier.value > value {
			complain("a node went back", earlier)
		}
		if o.Level == "bounded" {
			if earlier, ok := confirmed.before(o.Call - boundNs); ok && earlier.value > value {
				complain("a bounded read is too old", earlier)
			}
		}
	}
	return complaints
}

// Origins checks that each read value was written by somebody, before the end
// of the read, in an operation that was not refused; and that each text that
// was read is the beginning of all later ones.
func Origins(part []Operation) []string {
	var complaints []string
	began := map[string]int64{Absent: 0}
	longest := ""
	for _, o := range part {
		for _, step := range o.Steps {
			if o.Outcome != "failed" && step.With != "" {
				began[step.With] = o.Call
			}
			if o.Kind() == "t" && step.Do == "get" && step.Saw != nil && len(*step.Saw) > len(longest) {
				longest = *step.Saw
			}
		}
	}
	for _, o := range part {
		for _, step := range o.Steps {
			if step.Do != "get" || step.Saw == nil || o.Outcome != "done" {
				continue
			}
			saw := *step.Saw
			switch {
			case o.Kind() == "t":
				if saw != Absent && !strings.HasPrefix(longest, saw) {
					complaints = append(complaints, fmt.Sprintf("two texts: (%s), and %q was read too", describe(o), longest))
				}
			case o.Kind() == "r" || o.Kind() == "g" && step.Key < 2 || o.Kind() == "e":
				if call, isWritten := began[saw]; !isWritten || call > o.Return {
					complaints = append(complaints, fmt.Sprintf("nobody wrote it: (%s)", describe(o)))
				}
			}
		}
	}
	return complaints
}

// Expiry checks that a record that was gone stays away. Each is written once.
// A node hides what has expired by its own clock, so reads by a wrong clock
// say nothing.
func Expiry(part []Operation) []string {
	var complaints []string
	var reads []Operation
	for _, o := range part {
		if o.Kind() == "e" && o.IsRead() && o.Outcome == "done" && !o.WrongClock {
			reads = append(reads, o)
		}
	}
	isThere := func(o Operation) bool { return *o.Steps[0].Saw != Absent }
	seen, gone := map[[2]int]int64{}, map[[2]int]int64{}
	for _, o := range reads {
		if first, ok := seen[o.memory()]; isThere(o) && (!ok || o.Return < first) {
			seen[o.memory()] = o.Return
		}
	}
	for _, o := range reads {
		if first, ok := seen[o.memory()]; !isThere(o) && ok && first < o.Call {
			if since, ok := gone[o.memory()]; !ok || o.Return < since {
				gone[o.memory()] = o.Return
			}
		}
	}
	for _, o := range reads {
		if since, ok := gone[o.memory()]; isThere(o) && ok && since < o.Call {
			complaints = append(complaints, fmt.Sprintf("a record came back: (%s)", describe(o)))
		}
	}
	return complaints
}
