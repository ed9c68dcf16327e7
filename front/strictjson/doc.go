// Package strictjson looks at JSON as it was sent, before a decoder mends it.
// Decoders replace what is not UTF-8 and lone surrogates by U+FFFD and let the
// last of two equal keys win; a memory must not be stored like that.
//
// Invariants: a text that passes decodes to exactly the characters it names; a
// refusal names the field by its path; no input makes it panic or recurse
// without bound.
//
// It refuses to decode, to know any schema, and to mend anything.
package strictjson
