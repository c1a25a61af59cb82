package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// parseNamed reads a history of lines like those of parse. Blanks within a
// step are written as "+". The lines of processes come first:
//
//	process label home free dead lost
//
// Times are milliseconds, or "-" for never; "again" may follow. `dead` is the
// moment of the death.
func parseNamed(t *testing.T, text string) []Operation {
	t.Helper()
	var found []Operation
	var others []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		if words[0] != "process" {
			others = append(others, strings.ReplaceAll(line, "+", "\x00"))
			continue
		}
		at := func(word string) int64 {
			if word == "-" {
				return math.MaxInt64
			}
			var ms int64
			fmt.Sscan(word, &ms)
			return ms * 1_000_000
		}
		process := Process{Label: words[1], Free: at(words[3]), Dead: [2]int64{at(words[4]), at(words[4])}, Lost: at(words[5])}
		fmt.Sscan(words[2], &process.Home)
		process.Again = len(words) > 6
		found = append(found, Operation{Level: "process", Process: &process})
	}
	operations := parse(t, strings.Join(others, "\n"))
	for i := range operations {
		for j := range operations[i].Steps {
			step := &operations[i].Steps[j]
			step.With = strings.ReplaceAll(step.With, "\x00", " ")
			if step.Saw != nil {
				saw := strings.ReplaceAll(*step.Saw, "\x00", " ")
				step.Saw = &saw
			}
		}
	}
	for i := range found {
		found[i].Part = operations[0].Part
	}
	return append(found, operations...)
}

const two = `
		process a 1 - - -
		process b 2 - - -`

// Each of these is what names and groups promise.
var allowedNames = map[string]string{
	"one owner after the other": two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 register:b=no @2/2
		4 5 done linear 1.n0 lookup=a+5 @2/2
		6 7 done log 1.n0 unregister:5=ok @2/2
		8 9 done linear 1.n0 lookup=- @1/1
		10 11 done log 1.n0 register:b=7 @2/2
		12 13 done log 1.n0 unregister:5=no @1/1`,
	"a process that ended is seen elsewhere for a while": `
		process a 1 2 2 -
		process b 2 - - -
		0 1 done log 1.n0 register:a=5 @1/1
		3 4 done linear 1.n0 lookup=- @1/1
		5 6 done linear 1.n0 lookup=a+5 @2/2
		7 8 done log 1.n0 register:b=no @2/2
		9 10 done log 1.n0 register:b=6 @2/2`,
	"the name of a process that ended is free at its node at once": `
		process a 1 2 2 -
		process c 1 - - -
		0 1 done log 1.n0 register:a=5 @1/1
		3 4 done log 1.n0 register:c=6 @1/1`,
	"a session was lost": `
		process a 1 50 - 50
		process b 2 - - -
		0 1 done log 1.n0 register:a=5 @1/1
		60 61 done log 1.n0 register:b=6 @2/2
		62 63 done linear 1.n0 lookup=b+6 @1/1`,
	"a name is registered again": `
		process a 1 50 - 50 again
		process b 2 90 90 -
		0 1 done log 1.n0 register:a=5 @1/1
		60 61 done log 1.n0 register:b=6 @2/2
		100 101 done log 1.n0 register:b=no @2/2
		102 103 done linear 1.n0 lookup=a+9 @2/2`,
	"an unknown registration takes effect for a while": `
		process a 1 0 - -
		process b 2 - - -
		0 0 unknown log 1.n0 register:a @1/1
		2 3 done linear 1.n0 lookup=- @2/2
		4 5 done linear 1.n0 lookup=a+5 @2/2
		6 7 done log 1.n0 register:b=6 @2/2`,
	"a refusal of a registration that somebody removed": two + `
		0 9 done log 1.n0 register:a=no @1/1
		1 2 done linear 1.n0 lookup=a+5 @2/2
		3 4 done log 1.n0 unregister_any=ok @2/2
		5 6 done linear 1.n0 lookup=- @2/2`,
	"a name is moved": two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 move:b:5=6 @2/2
		4 5 done log 1.n0 move:a:5=no @1/1
		6 7 done linear 1.n0 lookup=b+6 @1/1`,
	"reads that are a little old": two + `
		0 1 done log 1.n0 register:a=5 @1/1
		900 901 done bounded 1.n0 lookup=- @2/2
		1900 1901 done copied 1.n0 owner=a @2/2
		1902 1903 done log 1.n0 unregister:5=ok @1/1
		1904 1905 done log 1.n0 register:b=6 @2/2
		3902 3903 done copied 1.n0 owner=a @1/1`,
	"an owner that has its name again is found by its process": `
		process a 1 50 - 50 again
		process b 2 90 90 -
		0 1 done log 1.n0 register:a=5 @1/1
		60 61 done log 1.n0 register:b=6 @2/2
		2100 2101 done copied 1.n0 owner=a @2/2`,
	"members come and go": two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done log 1.m0 join:a=ok @1/1
		4 5 done log 1.m0 join:b=ok @2/2
		6 7 done linear 1.m0 members=a+a+b @2/2
		8 9 done log 1.m0 leave:a=ok @1/1
		10 11 done linear 1.m0 members=a+b @2/2
		12 13 done log 1.m0 leave:b=ok @2/2
		14 15 done log 1.m0 leave:b=not_joined @2/2`,
	"a member ends": `
		process a 1 2 2 -
		process b 2 - - -
		0 1 done log 1.m0 join:a=ok @1/1
		0 1 done log 1.m0 join:b=ok @2/2
		5 6 done linear 1.m0 members=a+b @2/2
		7 8 done linear 1.m0 members=b @2/2`,
	"a member joins again": `
		process a 1 50 - 50
		0 1 done log 1.m0 join:a=ok @1/1
		60 61 done linear 1.m0 members=- @2/2
		62 63 done linear 1.m0 members=a @2/2`,
	"an old read of a group": two + `
		0 1 done log 1.m0 join:a=ok @1/1
		1900 1901 done copied 1.m0 members=- @2/2
		1902 1903 done log 1.m0 leave:a=ok @1/1
		3902 3903 done copied 1.m0 members=a @2/2`,
	"a member that had joined twice": two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done log 1.m0 join:a=ok @1/1
		4 5 done log 1.m0 leave:a=ok @1/1
		2100 2101 done copied 1.m0 members=a @2/2`,
}

// Each of these shows a fault, in the words of the rule that it breaks.
var forbiddenNames = map[string][2]string{
	"two owners": {"no order", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 register:b=6 @2/2`},
	"two owners before a death": {"no order", `
		process a 1 9 9 -
		process b 2 - - -
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 register:b=6 @2/2`},
	"a token that does not grow": {"no order", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 unregister:5=ok @1/1
		4 5 done log 1.n0 register:b=5 @2/2`},
	"a refusal of a free name": {"no order", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 unregister:5=ok @1/1
		4 5 done log 1.n0 register:b=no @2/2`},
	"a refusal because of a process of the same node that ended": {"no order", `
		process a 1 2 2 -
		process c 1 - - -
		0 1 done log 1.n0 register:a=5 @1/1
		3 4 done log 1.n0 register:c=no @1/1`},
	"a name that is lost": {"no order", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done linear 1.n0 lookup=- @2/2`},
	"a name that is lost, in old reads": {"a name was lost", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		1100 1101 done bounded 1.n0 lookup=- @2/2`},
	"an owner that comes back": {"no order", `
		process a 1 2 2 -
		process b 2 20 20 -
		0 1 done log 1.n0 register:a=5 @1/1
		3 4 done log 1.n0 register:b=6 @2/2
		30 31 done linear 1.n0 lookup=a+5 @2/2`},
	"a name that was moved twice": {"no order", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 move:b:5=6 @2/2
		4 5 done log 1.n0 move:a:5=7 @1/1`},
	"an old token removes": {"no order", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 unregister:5=ok @1/1
		4 5 done log 1.n0 register:b=6 @2/2
		6 7 done log 1.n0 unregister:5=ok @1/1`},
	"a process of the node that had ended": {"a process that had ended", `
		process a 1 2 2 -
		0 1 done log 1.n0 register:a=5 @1/1
		3 4 done copied 1.n0 owner=a @1/1`},
	"a read of an owner that is too old": {"a bounded read is too old", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 unregister:5=ok @1/1
		4 5 done log 1.n0 register:b=6 @2/2
		1100 1101 done bounded 1.n0 lookup=a+5 @3/3`},
	"a copy of a name that was freed": {"given the name up", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 unregister:5=ok @1/1
		2004 2005 done copied 1.n0 owner=a @2/2`},
	"a copy of a name that another process has": {"given the name up", `
		process a 1 2 2 -
		process b 2 - - -
		0 1 done log 1.n0 register:a=5 @1/1
		4 5 done log 1.n0 register:b=6 @2/2
		2006 2007 done copied 1.n0 owner=a @3/3`},
	"a node that goes back": {"a node went back", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done log 1.n0 unregister:5=ok @1/1
		4 5 done log 1.n0 register:b=6 @2/2
		6 7 done bounded 1.n0 lookup=b+6 @3/3
		8 9 done bounded 1.n0 lookup=a+5 @4/3`},
	"an owner that nobody registered": {"nobody registered it", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done copied 1.n0 owner=b @2/2`},
	"a process that nobody started": {"nobody started it", two + `
		0 1 done log 1.n0 register:a=5 @1/1
		2 3 done copied 1.n0 owner=x @2/2`},
	"a join that is lost": {"no order", two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done linear 1.m0 members=- @2/2`},
	"a join that is lost, in old reads": {"a join was lost", two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2100 2101 done copied 1.m0 members=- @2/2`},
	"a copy of a member that had left": {"it had left", two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done log 1.m0 leave:a=ok @1/1
		2004 2005 done copied 1.m0 members=a @2/2`},
	"half of a join that is complete": {"no order", two + `
		0 1 done log 1.m0 join:a+b=ok @1/1
		2 3 done linear 1.m0 members=a @2/2`},
	"half of a join, and then none": {"no order", two + `
		0 9 done log 1.m0 join:a+b=ok @1/1
		2 3 done linear 1.m0 members=a @2/2
		4 5 done linear 1.m0 members=- @2/2`},
	"a member that has left": {"no order", two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done log 1.m0 leave:a=ok @1/1
		4 5 done linear 1.m0 members=a @2/2`},
	"a member that comes back after its end": {"no order", `
		process a 1 2 2 -
		0 1 done log 1.m0 join:a=ok @1/1
		3 4 done linear 1.m0 members=- @2/2
		5 6 done linear 1.m0 members=a @2/2`},
	"a member that is counted twice": {"no order", two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done linear 1.m0 members=a+a @2/2`},
	"a member that is counted twice, in old reads": {"not joined so often", two + `
		0 1 done log 1.m0 join:a=ok @1/1
		2 3 done copied 1.m0 members=a+a @2/2`},
	"a leave without a join": {"no order", two + `
		0 1 done log 1.m0 leave:a=ok @1/1`},
}

func TestAllowedNames(t *testing.T) {
	for name, text := range allowedNames {
		result := Check(parseNamed(t, text), 10*time.Second, time.Second)
		if len(result.Complaints) > 0 || len(result.Undecided) > 0 {
			t.Errorf("%s: %v", name, result)
		}
	}
}

func TestHalves(t *testing.T) {
	for text, count := range map[string]int{
		"0 9 done log 1.m0 join:a+b=ok @1/1\n2 3 done linear 1.m0 members=a @2/2":                                                1,
		"0 9 done log 1.m0 join:a+b=ok @1/1\n2 3 done linear 1.m0 members=a+b @2/2":                                              0,
		"0 1 done log 1.m0 join:a+b=ok @1/1\n2 9 done log 1.m0 leave:a+b=ok @1/1\n3 4 done linear 1.m0 members=b @2/2":           1,
		"0 1 done log 1.m0 join:a+b=ok @1/1\n2 9 done log 1.m0 leave:a+b=not_joined @1/1\n10 11 done linear 1.m0 members=b @2/2": 0,
	} {
		if result := Check(parseNamed(t, two+"\n"+text), 10*time.Second, time.Second); result.Halves != count {
			t.Errorf("%s: %v", text, result)
		}
	}
}

func TestForbiddenNames(t *testing.T) {
	for name, each := range forbiddenNames {
		words := fmt.Sprint(Check(parseNamed(t, each[1]), 10*time.Second, time.Second).Complaints)
		if !strings.Contains(words, each[0]) {
			t.Errorf("%s: complaints are %s, not %q", name, words, each[0])
		}
	}
}
