// Package failure has the reasons for which a call of package sharding fails, as codes. The
// packages below sharding return a Code, or an error that wraps one. Package sharding documents
// the codes for users, and makes its *Error of them in one place (sharding.inGroup).
//
//	Code       one reason, itself an error
//	Group      what a caller can do about it: the same for all codes of a group
//	Because    an obstacle and what ended the wait for it
//	Retried    the last and an earlier result of a call that was repeated
package failure
