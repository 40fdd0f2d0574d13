package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Error is a failure with a code. Its text is "Code: message".
type Error struct {
	Code    Code
	Message string
	// Err is the cause, if there is one; it is part of the text.
	Err error
}

// New makes an Error from a format, which names object, cause and, where
// there is one, the next step. %w is honoured as in fmt.Errorf.
func New(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in the chain: "" for nil, and
// Internal for an error without a code.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Detail returns the message of the first Error in the chain, without its
// code, for use in another Error of the same code.
func Detail(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// Text renders err for people: code and cause first, and what was being done
// at the end, in brackets. An error without a code is rendered as Internal.
func Text(err error) string {
	if err == nil {
		return ""
	}
	whole := err.Error()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return string(Internal) + ": " + whole
	}
	context, found := strings.CutSuffix(whole, ": "+e.Error())
	if !found || context == "" {
		return whole
	}
	return e.Error() + " [" + context + "]"
}
