package embed

// PlainPolicy is the prompt policy of a remote model whose texts are sent as they
// are, for queries and documents.
const PlainPolicy = `prompt "" "" input_type "" ""`
