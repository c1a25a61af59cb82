package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// owned is the record of a name. A process that ends, or whose session does,
// gives its name up at a moment that no client sees. The model lets it happen
// as late as possible: when an operation needs it. So the state also has the
// time before which the operations up to now did not end.
type owned struct {
	owner string
	// Zero while nobody has seen it.
	token int64
	// The greatest that was seen.
	last int64
	now  int64
	// The owner may give the name up at any time.
	isLoose bool
}

// somebody is an owner of whom only the existence is known.
const somebody = "?"

// free is when the owner may give the name up.
func (s owned) free(known processes) int64 {
	if s.isLoose {
		return 0
	}
	return known[s.owner].Free
}

// given is the state in which nobody has the name; false if that cannot be
// before the end of an operation.
func (s owned) given(known processes, o Operation) (owned, bool) {
	if s.owner == "" {
		return s, true
	}
	s.now = later(s.now, s.free(known))
	s.owner, s.token, s.isLoose = "", 0, false
	return s, s.now <= o.Return && s.now < math.MaxInt64
}

// taken is the state in which a process has the name.
func (s owned) taken(label string, number int64) (owned, bool) {
	isGreater := number > s.last
	s.owner, s.token, s.last, s.isLoose = label, number, number, false
	return s, isGreater
}

// again is the state in which a process has got its name again, at a time that
// nobody knows.
func (s owned) again(known processes, o Operation, label string, number int64) (owned, bool) {
	process := known[label]
	if !process.Again || process.Lost > o.Return || process.Lost == math.MaxInt64 {
		return s, false
	}
	s, isFree := s.given(known, o)
	s.now = later(s.now, process.Lost)
	if number == 0 {
		s.owner, s.isLoose = somebody, true
		return s, isFree
	}
	s, isGreater := s.taken(label, number)
	s.isLoose = true
	return s, isFree && isGreater
}

// anyAgain is the state in which some process has got its name again.
func (s owned) anyAgain(known processes, o Operation) (owned, bool) {
	first := ""
	for label, process := range known {
		if process.Again && (first == "" || process.Lost < known[first].Lost) {
			first = label
		}
	}
	return s.again(known, o, first, 0)
}

// stepOfName takes one operation; false if the client saw something else.
func stepOfName(known processes, before interface{}, o Operation) (bool, interface{}) {
	s, step := before.(owned), o.Steps[0]
	if s.now = later(s.now, o.Call); s.now > o.Return {
		return false, s
	}
	next, isAllowed := s, true
	switch step.Do {
	case "register":
		next, isAllowed = registered(known, s, o)
	case "move":
		next, isAllowed = moved(known, s, o)
	case "unregister":
		if strconv.FormatInt(s.token, 10) == step.With {
			if next.owner, next.token, next.isLoose = "", 0, false; *step.Saw == "no" {
				next, isAllowed = s.given(known, o)
			}
		} else {
			isAllowed = *step.Saw == "no"
		}
	case "unregister_any":
		next.owner, next.token, next.isLoose = "", 0, false
	case "lookup":
		next, isAllowed = lookedUp(known, s, o)
	default:
		isAllowed = false
	}
	return isAllowed, next
}

// registered is the state after the registration of a name.
func registered(known processes, s owned, o Operation) (owned, bool) {
	step := o.Steps[0]
	if o.Outcome == "unknown" {
		// If it does nothing, its place is at the end.
		if free, isFree := s.given(known, o); isFree {
			free.owner, free.isLoose = step.With, true
			return free, true
		}
		return s, true
	}
	if *step.Saw == "no" {
		if s.owner == "" {
			return s.anyAgain(known, o)
		}
		owner := known[s.owner]
		return s, s.owner == somebody || owner.Home != o.Node || !owner.hasEnded(o.Call)
	}
	s, isFree := s.given(known, o)
	number, isNumber := token(step)
	s, isGreater := s.taken(step.With, number)
	return s, isFree && isNumber && isGreater
}

// moved is the state after a name was given to another process by its token.
func moved(known processes, s owned, o Operation) (owned, bool) {
	step := o.Steps[0]
	isIts := strconv.FormatInt(s.token, 10) == step.Expected
	if o.Outcome == "unknown" {
		if isIts {
			s.owner, s.token, s.isLoose = step.With, 0, true
		}
		return s, true
	}
	if *step.Saw == "no" {
		if isIts {
			return s.given(known, o)
		}
		return s, true
	}
	number, isNumber := token(step)
	s, isGreater := s.taken(step.With, number)
	return s, isIts && isNumber && isGreater
}

// lookedUp is the state after a look-up.
func lookedUp(known processes, s owned, o Operation) (owned, bool) {
	step := o.Steps[0]
	if *step.Saw == Absent {
		// Its own node hides a process that has ended.
		if owner := known[s.owner]; owner.Home == o.Node && owner.Dead[0] <= o.Return {
			s.now = later(s.now, owner.Dead[0])
			return s, true
		}
		return s.given(known, o)
	}
	label, number := seen(step)[0], int64(0)
	number, isNumber := token(step)
	switch {
	case !isNumber:
		return s, false
	case s.owner == label && s.token == number:
		return s, true
	case s.owner == label && s.token == 0 && number > s.last:
		s.token, s.last = number, number
		return s, true
	}
	return s.again(known, o, label, number)
}

// nameReads checks reads of a name that have no place in the order, by what is
// certain of each process.
func nameReads(known processes, operations []Operation, boundNs int64) []string {
	var complaints []string
	begun, got := map[string]int64{}, map[string]Operation{}
	// When a name was taken from its process by a client.
	taken := map[string]int64{}
	anyone := int64(math.MaxInt64)
	byToken := map[string]string{}
	for _, o := range operations {
		step := o.Steps[0]
		if o.Outcome == "failed" {
			continue
		}
		switch step.Do {
		case "register", "move":
			if call, is := begun[step.With]; !is || o.Call < call {
				begun[step.With] = o.Call
			}
			if o.Outcome == "done" && *step.Saw != "no" {
				got[step.With] = o
				byToken[*step.Saw] = step.With
			}
		case "unregister_any":
			anyone = earlier(anyone, o.Call)
		}
	}
	for _, o := range operations {
		step := o.Steps[0]
		number := step.With
		if step.Do == "move" {
			number = step.Expected
		}
		if label, is := byToken[number]; is && o.Outcome != "failed" && (step.Do == "unregister" || step.Do == "move") {
			if call, is := taken[label]; !is || o.Call < call {
				taken[label] = o.Call
			}
		}
	}
	for _, o := range operations {
		step := o.Steps[0]
		if o.Outcome != "done" || !o.IsRead() || step.Saw == nil {
			continue
		}
		complain := func(rule string, label string) {
			complaints = append(complaints, fmt.Sprintf("%s: %s by (%s)", rule, label, describe(o)))
		}
		for _, label := range seen(step) {
			if call, is := begun[label]; !is || call > o.Return {
				complain("nobody registered it", label)
			}
			if process := known[label]; process.Home == o.Node && process.hasEnded(o.Call) {
				complain("a process that had ended was found at its own node", label)
			}
		}
		if strings.HasPrefix(*step.Saw, Absent) {
			for label, registration := range got {
				call, isTaken := taken[label]
				if registration.Return < o.Call-age(o, boundNs) && known[label].Free > o.Return &&
					anyone > o.Return && (!isTaken || call > o.Return) {
					complain("a name was lost", label)
				}
			}
		}
	}
	return complaints
}
