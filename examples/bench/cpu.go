package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuTime returns the processor time that a process has used, in steps of a
// hundredth of a second; pid 0 is this process. It is 0 where there is no /proc
// to tell: the figure explains others and is no target.
func cpuTime(pid int) time.Duration {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	b, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return 0
	}
	// The command's name may hold anything, so fields are counted from its end.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const user, tick = 11, 10 * time.Millisecond
	if len(fields) < user+2 {
		return 0
	}
	var sum time.Duration
	for _, f := range fields[user : user+2] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

// shares says where a request's processor time went.
func (m measured) shares() string {
	return fmt.Sprintf("%s + %s", micros(m.cpu), micros(m.ours))
}
