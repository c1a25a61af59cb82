package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// KeysMax is how many keys a part may have.
const KeysMax = 3

// state has the values of the keys of a part; no record is the empty text.
type state [KeysMax]string

// shown is a value as a client sees it.
func shown(value string) string {
	if value == "" {
		return Absent
	}
	return value
}

// agrees is true if a client saw this, or nothing.
func agrees(saw *string, truth string) bool {
	return saw == nil || *saw == truth
}

// added is a counter after an increment; false if it is no number.
func added(value, delta string) (string, bool) {
	if value == "" {
		value = "0"
	}
	before, err := strconv.ParseInt(value, 10, 64)
	more, err2 := strconv.ParseInt(delta, 10, 64)
	return strconv.FormatInt(before+more, 10), err == nil && err2 == nil
}

// apply takes one step; false if the client saw something else.
func apply(now state, step Step) (state, bool) {
	value := now[step.Key]
	next, truth := value, ""
	switch step.Do {
	case "get":
		truth = shown(value)
	case "set":
		next = step.With
	case "swap":
		truth, next = shown(value), step.With
	case "add":
		if truth = strconv.FormatBool(value == ""); value == "" {
			next = step.With
		}
	case "cas":
		matches := shown(value) == step.Expected
		if truth = strconv.FormatBool(matches); matches {
			next = step.With
		}
	case "incr", "incr_present":
		if value == "" && step.Do == "incr_present" {
			truth = Absent
			break
		}
		var isNumber bool
		if next, isNumber = added(value, step.With); !isNumber {
			return now, false
		}
		truth = next
	case "append":
		next = value + step.With
		truth = strconv.Itoa(len(next))
	case "append_present":
		if truth = strconv.FormatBool(value != ""); value != "" {
			next = value + step.With
		}
	default:
		return now, false
	}
	now[step.Key] = next
	return now, agrees(step.Saw, truth)
}

// model is what a part does, one operation after the other.
var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(before, input, _ interface{}) (bool, interface{}) {
		now := before.(state)
		for _, step := range input.(Operation).Steps {
			var agreed bool
			if now, agreed = apply(now, step); !agreed {
				return false, now
			}
		}
		return true, now
	},
	DescribeOperation: func(input, _ interface{}) string { return describe(input.(Operation)) },
	DescribeState: func(now interface{}) string {
		return strings.Join(func() []string { s := now.(state); return s[:] }(), " | ")
	},
}

// describe says what an operation did, for a person.
func describe(o Operation) string {
	var words []string
	for _, step := range o.Steps {
		word := fmt.Sprintf("%s %d %s", step.Do, step.Key, step.With)
		if step.Expected != "" {
			word += " if " + step.Expected
		}
		if step.Saw != nil {
			word += " -> " + *step.Saw
		}
		words = append(words, word)
	}
	return fmt.Sprintf("%s at node %d, %s: %s", o.Door, o.Node, o.Outcome, strings.Join(words, ", "))
}

// Linearize says whether there is an order of the operations of a part in
// which each takes effect between its beginning and its end. An operation of
// unknown outcome may take effect at any time after its beginning.
func Linearize(part []Operation, limit time.Duration) porcupine.CheckResult {
	result, _ := porcupine.CheckOperationsVerbose(model, ordered(part, -1), limit)
	return result
}

// Bound is the same with the bounded reads, each of which may take effect
// earlier than its beginning by the bound.
func Bound(part []Operation, limit time.Duration, boundNs int64) porcupine.CheckResult {
	result, _ := porcupine.CheckOperationsVerbose(model, ordered(part, boundNs), limit)
	return result
}

// ordered are the operations of a part that have a place in one order: with a
// bound that is not negative, bounded reads as well.
func ordered(part []Operation, boundNs int64) []porcupine.Operation {
	var found []porcupine.Operation
	for _, operation := range part {
		if operation.Outcome == "failed" {
			continue
		}
		isBounded := boundNs >= 0 && operation.Level == "bounded"
		if !operation.IsOrdered() && !isBounded {
			continue
		}
		begin, end := operation.Call, operation.Return
		if isBounded {
			begin -= boundNs
		}
		if operation.Outcome == "unknown" {
			if operation.IsRead() {
				continue
			}
			end = math.MaxInt64
		}
		found = append(found, porcupine.Operation{
			ClientId: operation.Client, Input: operation, Call: begin, Return: end,
		})
	}
	return found
}
