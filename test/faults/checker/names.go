package main

import (
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

// nameModel is what is known of the owners.
type nameModel struct {
	known  processes
	unseen guests
}

// free is when the owner may give the name up.
func (m nameModel) free(s owned) int64 {
	if s.isLoose {
		return 0
	}
	return earlier(m.known[s.owner].Free, m.unseen.anyone)
}

// given is the state in which nobody has the name; false if that cannot be
// before the end of an operation.
func (m nameModel) given(s owned, o Operation) (owned, bool) {
	if s.owner == "" {
		return s, true
	}
	s.now = later(s.now, m.free(s))
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
func (m nameModel) again(s owned, o Operation, label string, number int64) (owned, bool) {
	process := m.known[label]
	if !process.Again || process.Lost > o.Return || process.Lost == math.MaxInt64 {
		return s, false
	}
	s, isFree := m.given(s, o)
	s.now = later(s.now, process.Lost)
	s, isGreater := s.taken(label, number)
	s.isLoose = true
	return s, isFree && isGreater
}

// hidden is the state in which somebody has the name whom no client has seen: a
// process that has got it again, or one whose registration is unknown.
func (m nameModel) hidden(s owned, o Operation) (owned, bool) {
	since := m.unseen.first
	for _, process := range m.known {
		if process.Again {
			since = earlier(since, process.Lost)
		}
	}
	s.owner, s.isLoose, s.now = somebody, true, later(s.now, since)
	return s, since <= o.Return && since < math.MaxInt64
}

// stepOfName takes one operation; false if the client saw something else.
func stepOfName(known processes, unseen guests) func(before interface{}, o Operation) (bool, interface{}) {
	m := nameModel{known, unseen}
	return func(before interface{}, o Operation) (bool, interface{}) {
		s := before.(owned)
		if s.now = later(s.now, o.Call); s.now > o.Return {
			return false, s
		}
		next, isAllowed := m.step(s, o)
		return isAllowed && next.now <= o.Return, next
	}
}

func (m nameModel) step(s owned, o Operation) (owned, bool) {
	step := o.Steps[0]
	isIts := s.owner != "" && strconv.FormatInt(s.token, 10) == tokenOf(step)
	switch step.Do {
	case "register":
		return m.registered(s, o)
	case "move":
		if o.Outcome == "unknown" {
			s.owner, s.token, s.isLoose = step.With, 0, true
			return s, isIts
		}
		if *step.Saw != "no" {
			number, isNumber := token(step)
			s, isGreater := s.taken(step.With, number)
			return s, isIts && isNumber && isGreater
		}
	case "unregister":
		if *step.Saw == "ok" {
			s.owner, s.token, s.isLoose = "", 0, false
			return s, isIts
		}
	case "unregister_any":
		s.owner, s.token, s.isLoose = "", 0, false
		return s, true
	case "lookup":
		return m.lookedUp(s, o)
	default:
		return s, false
	}
	// It was refused: another process has the name, or none.
	if isIts {
		return m.given(s, o)
	}
	return s, true
}

// tokenOf is the token that a step depends on.
func tokenOf(step Step) string {
	if step.Do == "move" {
		return step.Expected
	}
	return step.With
}

// registered is the state after the registration of a name.
func (m nameModel) registered(s owned, o Operation) (owned, bool) {
	step := o.Steps[0]
	if o.Outcome == "done" && *step.Saw == "no" {
		// Its own node does not take a process for the owner that has ended.
		owner := m.known[s.owner]
		if s.owner == somebody || s.owner != "" && (owner.Home != o.Node || !owner.hasEnded(o.Call)) {
			return s, true
		}
		s, isFree := m.given(s, o)
		s, isThere := m.hidden(s, o)
		return s, isFree && isThere
	}
	s, isFree := m.given(s, o)
	if o.Outcome == "unknown" {
		s.owner, s.isLoose = step.With, true
		return s, isFree
	}
	number, isNumber := token(step)
	s, isGreater := s.taken(step.With, number)
	return s, isFree && isNumber && isGreater
}

// lookedUp is the state after a look-up.
func (m nameModel) lookedUp(s owned, o Operation) (owned, bool) {
	step := o.Steps[0]
	if *step.Saw == Absent {
		// Its own node hides a process that has ended.
		if owner := m.known[s.owner]; owner.Home == o.Node && owner.Dead[0] <= o.Return {
			s.now = later(s.now, owner.Dead[0])
			return s, true
		}
		return m.given(s, o)
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
	return m.again(s, o, label, number)
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
	// The tokens of processes, and when one of a later process was known.
	tokens, granted := map[string]int64{}, []moment(nil)
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
				if number, isNumber := token(step); isNumber {
					tokens[step.With] = number
					granted = append(granted, moment{o.Return, number, o})
				}
			}
		case "unregister_any":
			anyone = earlier(anyone, o.Call)
		}
	}
	// When it certainly had been.
	freed := map[string]int64{}
	for _, o := range operations {
		step := o.Steps[0]
		if label, is := byToken[tokenOf(step)]; is && o.Outcome != "failed" && (step.Do == "unregister" || step.Do == "move") {
			if call, is := taken[label]; !is || o.Call < call {
				taken[label] = o.Call
			}
			if o.Outcome == "done" && *step.Saw != "no" {
				freed[label] = o.Return
			}
		}
	}
	later := newKnown(granted)
	for _, o := range answeredReads(operations) {
		step := o.Steps[0]
		complain := func(rule string, label string) {
			complaints = append(complaints, aboutLabel(rule, label, o))
		}
		for _, label := range seen(step) {
			if call, is := begun[label]; !is || call > o.Return {
				complain("nobody registered it", label)
			}
			if process := known[label]; process.Home == o.Node && process.hasEnded(o.Call) {
				complain("a process that had ended was found at its own node", label)
			}
			// One that has got its name again has a token that nobody knows.
			number, isKnown := tokens[label]
			if process := known[label]; !isKnown || process.Again && process.Lost <= o.Return {
				continue
			}
			since := o.Call - age(o, boundNs)
			end, isFreed := freed[label]
			if next, is := later.before(since); is && next.value > number || isFreed && end < since {
				complain("it had given the name up", label)
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
