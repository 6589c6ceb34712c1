package main

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	tollgate "github.com/tollgate/tollgate/clients/go"
)

// number is a 64-bit number: a string of digits, or a number of JSON.
type number int64

func (n *number) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = number(value)
	return err
}

// token is an unsigned 64-bit number, or the text of a token of a connection.
type token string

func (t *token) UnmarshalJSON(text []byte) error {
	if strings.HasPrefix(string(text), `"`) {
		return json.Unmarshal(text, (*string)(t))
	}
	*t = token(text)
	return nil
}

func (t token) number() uint64 {
	value, _ := strconv.ParseUint(string(t), 10, 64)
	return value
}

// seconds is a duration as a number of seconds.
type seconds float64

func (s seconds) duration() time.Duration {
	return time.Duration(float64(s) * float64(time.Second))
}

// item is an item of a list of a command.
type item struct {
	Pool    string  `json:"pool"`
	Device  string  `json:"device"`
	Task    string  `json:"task"`
	Token   token   `json:"token"`
	Lease   seconds `json:"lease"`
	Payload string  `json:"payload"`
}

func (i item) ref() tollgate.TaskRef {
	return tollgate.TaskRef{Pool: i.Pool, Device: i.Device, Task: i.Task, Token: i.Token.number()}
}

// command has the fields of all commands.
type command struct {
	ID json.RawMessage `json:"id"`
	Do string          `json:"do"`
	item
	Connection    string          `json:"connection"`
	Addresses     []string        `json:"addresses"`
	CA            string          `json:"ca"`
	Cert          string          `json:"cert"`
	Key           string          `json:"key"`
	ServerName    string          `json:"server_name"`
	TokenFile     string          `json:"token_file"`
	TokenCallback string          `json:"token_callback"`
	Namespace     string          `json:"namespace"`
	Deadline      seconds         `json:"deadline"`
	Handle        string          `json:"handle"`
	Wait          seconds         `json:"wait"`
	Keeper        *bool           `json:"keeper"`
	Outcome       string          `json:"outcome"`
	Result        string          `json:"result"`
	Failed        bool            `json:"failed"`
	Items         []item          `json:"items"`
	Tasks         []item          `json:"tasks"`
	Capacity      *uint32         `json:"capacity"`
	Paused        *bool           `json:"paused"`
	Grace         *seconds        `json:"grace"`
	Work          seconds         `json:"work"`
	Fail          bool            `json:"fail"`
	Policy        string          `json:"policy"`
	Address       string          `json:"address"`
	Prefix        int             `json:"prefix"`
	Cost          *number         `json:"cost"`
	RequestID     string          `json:"request_id"`
	OnFailure     string          `json:"on_failure"`
	Name          string          `json:"name"`
	Count         number          `json:"count"`
	Step          number          `json:"step"`
	Floor         *number         `json:"floor"`
	Block         number          `json:"block"`
	Owner         string          `json:"owner"`
	SKU           string          `json:"sku"`
	OnHand        number          `json:"on_hand"`
	Delta         number          `json:"delta"`
	Order         string          `json:"order"`
	Quantity      number          `json:"quantity"`
	Hold          seconds         `json:"hold"`
	Buyer         string          `json:"buyer"`
	BuyerLimit    number          `json:"buyer_limit"`
	Confirm       bool            `json:"confirm"`
	After         string          `json:"after"`
	Target        json.RawMessage `json:"target"`
	Advance       seconds         `json:"advance"`
	Parallel      int             `json:"parallel"`
}

// leaseOptions returns the options of a command that takes a lease.
func (c *command) leaseOptions() []tollgate.LeaseOption {
	var options []tollgate.LeaseOption
	if c.Wait > 0 {
		options = append(options, tollgate.WithWait(c.Wait.duration()))
	}
	if c.Lease > 0 {
		options = append(options, tollgate.WithLease(c.Lease.duration()))
	}
	if c.Keeper != nil && !*c.Keeper {
		options = append(options, tollgate.WithoutKeeper())
	}
	return options
}

func (c *command) outcome() tollgate.Outcome {
	if c.Outcome == "FAILED" {
		return tollgate.Failed
	}
	return tollgate.Succeeded
}

// fields is an answer or an event.
type fields map[string]any

// errorFields describes an error.
func errorFields(err error) fields {
	var failure *tollgate.Error
	if !errors.As(err, &failure) {
		return fields{"code": "UNKNOWN", "reason": "", "violations": []fields{}, "message": err.Error()}
	}
	violations := []fields{}
	for _, v := range failure.Violations {
		violations = append(violations, fields{"field": v.Field, "description": v.Description})
	}
	answer := fields{
		"code":       code.Code(failure.Code).String(),
		"reason":     failure.Reason,
		"violations": violations,
		"message":    failure.Message,
	}
	if failure.RetryAfter > 0 {
		answer["retry_after"] = failure.RetryAfter.Seconds()
	}
	return answer
}

func unsigned(value uint64) string {
	return strconv.FormatUint(value, 10)
}
