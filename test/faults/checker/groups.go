package main

import (
	"math"
	"sort"
	"strconv"
	"strings"
)

// joined is the state of a group, as text that can be compared: the time
// before which the operations up to now did not end, and for each member its
// label and how often it has joined, and "~" if it may leave at any time.
// Members leave at moments that no client sees; see owned.
type joined string

type member struct {
	times   int
	isLoose bool
}

func (j joined) read() (int64, map[string]member) {
	now, members := int64(0), map[string]member{}
	for at, word := range strings.Fields(string(j)) {
		if at == 0 {
			now, _ = strconv.ParseInt(word, 10, 64)
			continue
		}
		label, times, _ := strings.Cut(word, "=")
		count, _ := strconv.Atoi(strings.TrimSuffix(times, "~"))
		members[label] = member{count, strings.HasSuffix(times, "~")}
	}
	return now, members
}

func write(now int64, members map[string]member) joined {
	words := make([]string, 0, len(members)+1)
	for label, each := range members {
		if each.times > 0 || each.isLoose {
			word := label + "=" + strconv.Itoa(each.times)
			if each.isLoose {
				word += "~"
			}
			words = append(words, word)
		}
	}
	sort.Strings(words)
	return joined(strings.Join(append([]string{strconv.FormatInt(now, 10)}, words...), " "))
}

// stepOfGroup takes one operation; false if the client saw something else.
func stepOfGroup(known processes) func(before interface{}, o Operation) (bool, interface{}) {
	return func(before interface{}, o Operation) (bool, interface{}) { return groupStep(known, before, o) }
}

func groupStep(known processes, before interface{}, o Operation) (bool, interface{}) {
	now, members := before.(joined).read()
	step := o.Steps[0]
	if now = later(now, o.Call); now > o.Return {
		return false, before
	}
	isAllowed := true
	switch step.Do {
	case "join":
		for _, label := range strings.Fields(step.With) {
			each := members[label]
			members[label] = member{each.times + 1, each.isLoose}
		}
	case "leave":
		now, isAllowed = left(known, now, members, o)
	case "leave_any":
		// One of several, which perhaps had not joined.
		if each := members[step.With]; each.times > 0 {
			members[step.With] = member{each.times - 1, each.isLoose}
		}
	case "members":
		now, isAllowed = counted(known, now, members, o)
	default:
		isAllowed = false
	}
	return isAllowed, write(now, members)
}

// gone takes members out until only some are left, which must be possible
// before the end of an operation.
func gone(known processes, now int64, members map[string]member, label string, times int, o Operation) (int64, bool) {
	each := members[label]
	if each.times <= times {
		return now, true
	}
	members[label] = member{times, each.isLoose}
	if !each.isLoose {
		now = later(now, known[label].Free)
	}
	return now, now <= o.Return && now < math.MaxInt64
}

// left takes processes out of a group.
func left(known processes, now int64, members map[string]member, o Operation) (int64, bool) {
	step := o.Steps[0]
	labels := strings.Fields(step.With)
	isAllowed, isAny := true, false
	for _, label := range labels {
		each := members[label]
		if *step.Saw != "ok" {
			var isGone bool
			now, isGone = gone(known, now, members, label, 0, o)
			isAllowed = isAllowed && isGone
		} else if _, isMore := known[label].more(1, o); each.times > 0 || each.isLoose || isMore {
			isAny = true
			if each.times > 0 {
				members[label] = member{each.times - 1, each.isLoose}
			}
		}
	}
	return now, isAllowed && (isAny || *step.Saw != "ok")
}

// more is from when on a process may be a member more often than it has joined:
// by joins of unknown outcome, or because its node has brought it back after
// its session was lost.
func (p Process) more(times int, o Operation) (int64, bool) {
	since := p.Lost
	if len(p.joins) >= times {
		since = earlier(since, p.joins[times-1])
	}
	return since, since <= o.Return && since < math.MaxInt64
}

// counted compares the members with those that a read saw.
func counted(known processes, now int64, members map[string]member, o Operation) (int64, bool) {
	times := map[string]int{}
	for _, label := range seen(o.Steps[0]) {
		times[label]++
	}
	isAllowed := true
	for label := range members {
		var isGone bool
		now, isGone = gone(known, now, members, label, times[label], o)
		isAllowed = isAllowed && isGone
	}
	for label, count := range times {
		if each := members[label]; each.times < count {
			since, isMore := known[label].more(count-each.times, o)
			isAllowed = isAllowed && isMore
			now = later(now, since)
			members[label] = member{count, true}
		}
	}
	return now, isAllowed && now <= o.Return
}

// groupReads checks reads that have no place in the order, by what is certain
// of each process: a member that has joined, and has not left, is there, and
// one that has left is not.
func groupReads(known processes, operations []Operation, boundNs int64) []string {
	var complaints []string
	begun, joins, leaves := map[string][]int64{}, map[string][]Operation{}, map[string]int64{}
	// Of a leave of several processes, nobody knows which had joined.
	ends := map[string][]int64{}
	for _, o := range operations {
		step := o.Steps[0]
		if o.Outcome == "failed" || o.IsRead() {
			continue
		}
		for _, label := range strings.Fields(step.With) {
			switch step.Do {
			case "join":
				begun[label] = append(begun[label], o.Call)
				if o.Outcome == "done" {
					joins[label] = append(joins[label], o)
				}
			case "leave":
				if call, is := leaves[label]; !is || o.Call < call {
					leaves[label] = o.Call
				}
				if o.Outcome == "done" && *step.Saw == "ok" && step.With == label {
					ends[label] = append(ends[label], o.Return)
				}
			}
		}
	}
	for _, o := range answeredReads(operations) {
		step := o.Steps[0]
		complain := func(rule string, label string) {
			complaints = append(complaints, aboutLabel(rule, label, o))
		}
		times := map[string]int{}
		for _, label := range seen(step) {
			times[label]++
		}
		for label, count := range times {
			most := 0
			for _, call := range begun[label] {
				if call <= o.Return {
					most++
				}
			}
			left := 0
			for _, end := range ends[label] {
				if end < o.Call-age(o, boundNs) {
					left++
				}
			}
			// After a loss, the member of before may still be there for a while.
			switch {
			case known[label].Lost <= o.Return:
			case count > most:
				complain("it has not joined so often", label)
			case count > most-left:
				complain("it had left", label)
			}
		}
		for label, all := range joins {
			if call, is := leaves[label]; known[label].Free <= o.Return || is && call <= o.Return {
				continue
			}
			certain := 0
			for _, join := range all {
				if join.Return < o.Call-age(o, boundNs) {
					certain++
				}
			}
			if times[label] < certain {
				complain("a join was lost", label)
			}
		}
	}
	return complaints
}
