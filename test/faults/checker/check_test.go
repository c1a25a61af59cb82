package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// parse reads a history of lines like
//
//	call return outcome level part steps
//
// for example `0 5 done log 1.c0 incr:17=17`. The client, connection and node
// follow as `@client/node`, perhaps with `/memory`; steps are separated by commas.
func parse(t *testing.T, text string) []Operation {
	t.Helper()
	var found []Operation
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		if len(words) != 7 {
			t.Fatalf("seven words: %q", line)
		}
		var o Operation
		fmt.Sscan(words[0], &o.Call)
		fmt.Sscan(words[1], &o.Return)
		o.Call, o.Return = o.Call*1_000_000, o.Return*1_000_000
		o.Outcome, o.Level, o.Part = words[2], words[3], words[4]
		for _, word := range strings.Split(words[5], ",") {
			var step Step
			head, saw, isTold := strings.Cut(word, "=")
			parts := strings.Split(head, ":")
			step.Do = parts[0]
			if len(parts) > 1 {
				step.With = parts[1]
			}
			if len(parts) > 2 {
				step.Expected = parts[2]
			}
			if len(parts) > 3 {
				fmt.Sscan(parts[3], &step.Key)
			}
			if isTold {
				step.Saw = &saw
			}
			o.Steps = append(o.Steps, step)
		}
		o.Connection, o.WrongClock = strings.TrimSuffix(words[6], "!"), strings.HasSuffix(words[6], "!")
		fmt.Sscanf(o.Connection, "@%d/%d/%d", &o.Client, &o.Node, &o.Memory)
		found = append(found, o)
	}
	return found
}

// Each of these is what a correct store may answer.
var allowed = map[string]string{
	"one after the other": `
		0 1 done log 1.r0 set:a @1/1
		2 3 done log 1.r0 swap:b=a @2/2
		4 5 done log 1.r0 cas:c:b=true @1/1
		6 7 done log 1.r0 cas:d:b=false @3/1
		8 9 done linear 1.r0 get=c @2/2`,
	"at the same time, in either order": `
		0 9 done log 1.c0 incr:5=8 @1/1
		0 9 done log 1.c0 incr:3=3 @2/2
		10 11 done linear 1.c0 get=8 @3/3`,
	"a guest that starts anew has forgotten": `
		0 1 done log 1.c0 incr:5=5 @1/1
		2 3 done local 1.c0 get=5 @2/6/1
		4 5 done local 1.c0 get=- @3/6/2`,
	"an unknown write takes effect late": `
		0 0 unknown log 1.c0 incr:5 @1/1
		1 2 done linear 1.c0 get=- @2/2
		3 4 done log 1.c0 incr:1=1 @2/2
		5 6 done log 1.c0 incr:1=7 @2/2`,
	"an unknown write never takes effect": `
		0 0 unknown log 1.t0 append:xx @1/1
		1 2 done log 1.t0 append:y=1 @2/2
		3 4 done linear 1.t0 get=y @2/2`,
	"a refused write": `
		0 1 failed log 1.r0 set:a @1/1
		2 3 done linear 1.r0 get=- @1/1`,
	"a local read of another node is old": `
		0 1 done log 1.c0 incr:5=5 @1/1
		2000 2001 done local 1.c0 get=- @2/2`,
	"a bounded read is a little old": `
		0 1 done log 1.c0 incr:5=5 @1/1
		900 901 done bounded 1.c0 get=- @2/2
		1500 1501 done bounded 1.c0 get=5 @2/2`,
	"a bounded read of a register is a little old": `
		0 1 done log 1.r0 set:a @1/1
		500 501 done log 1.r0 set:b @1/1
		1400 1401 done bounded 1.r0 get=a @2/2
		1402 1403 done bounded 1.r0 get=b @2/2`,
	"a step of several keys": `
		0 1 done log 1.g0 swap:a=-,swap:b::1=-,incr:2::2=2 @1/1
		2 3 done log 1.g0 get=a,get:::1=b,incr:2::2=4 @2/2`,
	"memcached's words for a missing record": `
		0 1 done log 1.c0 incr_present:2=- @1/1
		2 3 done log 1.c0 incr:2=2 @1/1
		4 5 done log 1.c0 incr_present:2=4 @1/1
		6 7 done log 1.t0 append_present:x=false @1/1`,
	"a record is hidden by a wrong clock": `
		0 1 done log 1.e0 expire:500 @1/1
		2 3 done local 1.e0 get=500 @1/1
		4 5 done local 1.e0 get=- @1/1!
		6 7 done local 1.e0 get=500 @1/1`,
	"a record expires": `
		0 1 done log 1.e0 expire:500 @1/1
		2 3 done local 1.e0 get=500 @1/1
		900 901 done local 1.e0 get=- @1/1
		902 903 done local 1.e0 get=- @1/2`,
}

// Each of these shows a fault, in the words of the rule that it breaks.
var forbidden = map[string][2]string{
	"a lost write": {"no order", `
		0 1 done log 1.r0 set:a @1/1
		2 3 done linear 1.r0 get=- @2/2`},
	"a lost increment": {"no order", `
		0 1 done log 1.c0 incr:5=5 @1/1
		2 3 done log 1.c0 incr:3=8 @1/1
		4 5 done linear 1.c0 get=5 @2/2`},
	"a stale linear read": {"no order", `
		0 1 done log 1.r0 set:a @1/1
		2 3 done log 1.r0 set:b @1/1
		4 5 done linear 1.r0 get=a @2/2`},
	"an increment that is done twice": {"no order", `
		0 1 done log 1.c0 incr:5=5 @1/1
		2 3 done log 1.c0 incr:3=13 @1/1`},
	"an unknown increment that is done twice": {"no order", `
		0 0 unknown log 1.c0 incr:5 @1/1
		2 3 done log 1.c0 incr:3=13 @2/1`},
	"a text that is appended twice": {"no order", `
		0 1 done log 1.t0 append:x=1 @1/1
		2 3 done linear 1.t0 get=xx @2/2`},
	"a refused write that is done": {"no order", `
		0 1 failed log 1.r0 set:a @1/1
		2 3 done linear 1.r0 get=a @1/1`},
	"a refused write that is seen by a local read": {"nobody wrote it", `
		0 1 failed log 1.r0 set:a @1/1
		2 3 done local 1.r0 get=a @1/1`},
	"a value before its write": {"nobody wrote it", `
		0 1 done local 1.r0 get=a @1/1
		2 3 done log 1.r0 set:a @1/1`},
	"two conditional writes of the same value succeed": {"no order", `
		0 1 done log 1.r0 set:a @1/1
		2 9 done log 1.r0 cas:b:a=true @1/1
		2 9 done log 1.r0 cas:c:a=true @2/2`},
	"a condition that fails without a reason": {"no order", `
		0 1 done log 1.r0 set:a @1/1
		2 3 done log 1.r0 cas:b:a=false @1/1`},
	"half of a step": {"no order", `
		0 1 done log 1.g0 swap:a=-,swap:b::1=- @1/1
		2 3 done log 1.g0 get=a,get:::1=-,incr:2::2=2 @2/2`},
	"a read of half of a step": {"no order", `
		0 1 done log 1.g0 set:a,set:b::1 @1/1
		2 9 done log 1.g0 set:c,set:d::1 @1/1
		3 8 done log 1.g0 get=c,get:::1=b,incr:2::2=2 @2/2`},
	"own writes are not seen": {"a connection went back", `
		0 1 done log 1.c0 incr:5=5 @1/1
		2 3 done bounded 1.c0 get=- @1/1`},
	"a connection goes back": {"a connection went back", `
		0 1 done log 1.t0 append:x=1 @1/1
		0 1 done log 1.t0 append:y=2 @1/1
		2 3 done local 1.t0 get=xy @2/2
		4 5 done local 1.t0 get=x @2/2`},
	"a node goes back": {"a node went back", `
		0 1 done log 1.c0 incr:5=5 @1/1
		2 3 done local 1.c0 get=5 @2/2
		4 5 done local 1.c0 get=- @3/2`},
	"a guest goes back": {"a node went back", `
		0 1 done log 1.c0 incr:5=5 @1/1
		2 3 done local 1.c0 get=5 @2/6/1
		4 5 done local 1.c0 get=- @3/6/1`},
	"a bounded read is too old": {"a bounded read is too old", `
		0 1 done log 1.c0 incr:5=5 @1/1
		1002 1003 done bounded 1.c0 get=- @2/2`},
	"a bounded read of a register is too old": {"bounded reads", `
		0 1 done log 1.r0 set:a @1/1
		2 3 done log 1.r0 set:b @1/1
		1004 1005 done bounded 1.r0 get=a @2/2`},
	"a bounded read of a value that never was": {"bounded reads", `
		0 1 done log 1.r0 set:a @1/1
		2 3 done log 1.r0 cas:b:c=false @1/1
		1004 1005 done bounded 1.r0 get=b @2/2`},
	"two nodes have different texts": {"two texts", `
		0 1 done log 1.t0 append:x=1 @1/1
		0 0 unknown log 1.t0 append:y @2/1
		2 3 done local 1.t0 get=x @2/2
		2 3 done local 1.t0 get=yx @2/3`},
	"a record that expired comes back": {"a record came back", `
		0 1 done log 1.e0 expire:500 @1/1
		2 3 done local 1.e0 get=500 @1/1
		900 901 done local 1.e0 get=- @1/1
		902 903 done local 1.e0 get=500 @1/1`},
}

func check(t *testing.T, text string) Result {
	t.Helper()
	return Check(parse(t, text), 10*time.Second, time.Second)
}

func TestAllowed(t *testing.T) {
	for name, text := range allowed {
		if result := check(t, text); len(result.Complaints) > 0 || len(result.Undecided) > 0 {
			t.Errorf("%s: %v", name, result)
		}
	}
}

func TestForbidden(t *testing.T) {
	for name, each := range forbidden {
		words := fmt.Sprint(check(t, each[1]).Complaints)
		if !strings.Contains(words, each[0]) {
			t.Errorf("%s: complaints are %s, not %q", name, words, each[0])
		}
	}
}

func TestReadOfLines(t *testing.T) {
	line := `{"client":1,"connection":"1.1","door":"resp","node":2,"part":"7.c0","level":"log",` +
		`"steps":[{"do":"incr","key":0,"with":"17","saw":"40"}],"call":1,"return":2,"outcome":"done"}`
	found, err := Read(strings.NewReader(line + "\n{\"note\":{},\"call\":3}\n"))
	if err != nil || len(found) != 1 || *found[0].Steps[0].Saw != "40" || found[0].Kind() != "c" {
		t.Errorf("%v %v", found, err)
	}
	if _, err := Read(strings.NewReader("{\n")); err == nil {
		t.Error("half a line was read")
	}
}
