package embed

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// contract is one HTTP contract: what a request says and how an answer reads.
type contract interface {
	path() string
	request(p Purpose, texts []string) ([]byte, error)
	// vectors reads an answer to n texts: n vectors in the order of the texts, of
	// any one dimension, finite, not normalised.
	vectors(body []byte, n int) ([][]float32, error)
}

// openAI is the contract of POST /v1/embeddings.
type openAI struct {
	model      string
	inputTypes Pair
}

func (openAI) path() string { return "/v1/embeddings" }

func (c openAI) request(p Purpose, texts []string) ([]byte, error) {
	return json.Marshal(struct {
		Model          string   `json:"model"`
		Input          []string `json:"input"`
		EncodingFormat string   `json:"encoding_format"`
		InputType      string   `json:"input_type,omitempty"`
	}{c.model, texts, "float", c.inputTypes.of(p)})
}

// vectors honours the index of each entry: servers may answer in any order. An
// answer without any index is in the order asked.
func (openAI) vectors(body []byte, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int   `json:"index"`
			Embedding vector `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, badJSON(err)
	}
	if len(answer.Data) != n {
		return nil, fmt.Errorf("%w: %d vectors for %d texts", ErrBadResponse, len(answer.Data), n)
	}
	ordered := make([][]float32, n)
	indexed := n > 0 && answer.Data[0].Index != nil
	for i, entry := range answer.Data {
		if (entry.Index != nil) != indexed {
			return nil, fmt.Errorf("%w: some entries have an index and some have none", ErrBadResponse)
		}
		if indexed {
			i = *entry.Index
		}
		if i < 0 || i >= n || ordered[i] != nil {
			return nil, fmt.Errorf("%w: index %d is outside 0..%d or given twice", ErrBadResponse, i, n-1)
		}
		if len(entry.Embedding) == 0 {
			return nil, fmt.Errorf("%w: entry %d has no vector", ErrBadResponse, i)
		}
		ordered[i] = entry.Embedding
	}
	return ordered, sameDims(ordered)
}

// plain is the contract of POST /embed.
type plain struct{}

func (plain) path() string { return "/embed" }

func (plain) request(_ Purpose, texts []string) ([]byte, error) {
	return json.Marshal(struct {
		Texts []string `json:"texts"`
	}{texts})
}

func (plain) vectors(body []byte, n int) ([][]float32, error) {
	var answer struct {
		Embeddings []vector `json:"embeddings"`
		Dimensions *int     `json:"dimensions"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, badJSON(err)
	}
	if len(answer.Embeddings) != n {
		return nil, fmt.Errorf("%w: %d vectors for %d texts", ErrBadResponse, len(answer.Embeddings), n)
	}
	ordered := make([][]float32, n)
	for i, v := range answer.Embeddings {
		if len(v) == 0 {
			return nil, fmt.Errorf("%w: entry %d has no vector", ErrBadResponse, i)
		}
		if answer.Dimensions != nil && len(v) != *answer.Dimensions {
			return nil, fmt.Errorf("%w: it announces %d dimensions and sends %d", ErrBadResponse, *answer.Dimensions, len(v))
		}
		ordered[i] = v
	}
	return ordered, sameDims(ordered)
}

func sameDims(vectors [][]float32) error {
	for i, v := range vectors {
		if len(v) > MaxDims {
			return fmt.Errorf("%w: vectors of %d dimensions (limit: %d)", ErrBadResponse, len(v), MaxDims)
		}
		if len(v) != len(vectors[0]) {
			return fmt.Errorf("%w: vector %d has %d dimensions and vector 0 has %d", ErrBadResponse, i, len(v), len(vectors[0]))
		}
	}
	return nil
}

// tokenReport reads an answer to POST /count_tokens. A null report means that the
// server cannot see its tokens.
func tokenReport(body []byte, texts []string) ([]TokenCount, error) {
	var answer struct {
		TokenInfo []struct {
			Count     int  `json:"count"`
			Window    int  `json:"window"`
			WindowEnd *int `json:"window_end_char"`
		} `json:"token_info"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, badJSON(err)
	}
	if answer.TokenInfo == nil {
		return nil, ErrNotOffered
	}
	if len(answer.TokenInfo) != len(texts) {
		return nil, fmt.Errorf("%w: %d token counts for %d texts", ErrBadResponse, len(answer.TokenInfo), len(texts))
	}
	counts := make([]TokenCount, len(texts))
	for i, info := range answer.TokenInfo {
		length := len([]rune(texts[i]))
		if info.WindowEnd == nil || info.Count < 0 || info.Window < 1 || *info.WindowEnd < 0 || *info.WindowEnd > length ||
			(info.Count > info.Window && *info.WindowEnd == length) || (info.Count <= info.Window && *info.WindowEnd != length) {
			return nil, fmt.Errorf("%w: token count %d contradicts itself", ErrBadResponse, i)
		}
		counts[i] = TokenCount{Tokens: info.Count, Window: info.Window, WindowEnd: *info.WindowEnd}
	}
	return counts, nil
}

// badJSON says where an answer stops being JSON without repeating any of it.
func badJSON(err error) error {
	switch e := err.(type) {
	case *json.SyntaxError:
		return fmt.Errorf("%w: not JSON at byte %d", ErrBadResponse, e.Offset)
	case *json.UnmarshalTypeError:
		return fmt.Errorf("%w: %s is not a %s", ErrBadResponse, e.Field, e.Type)
	default:
		return fmt.Errorf("%w: %w", ErrBadResponse, err)
	}
}

// vector reads a JSON array of finite numbers. Unlike []float32 it takes no null
// for zero, which is how servers spell NaN.
type vector []float32

var errNotNumbers = fmt.Errorf("%w: a vector is not an array of finite numbers", ErrBadResponse)

// UnmarshalJSON implements [json.Unmarshaler]. It is given syntactically valid
// JSON.
func (v *vector) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '[' {
		return errNotNumbers
	}
	b = b[1 : len(b)-1]
	numbers := make([]float32, 0, len(b)/8+1)
	for start := 0; start < len(b); {
		end := start
		for end < len(b) && b[end] != ',' {
			end++
		}
		x, err := strconv.ParseFloat(trimSpace(b[start:end]), 32)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return errNotNumbers
		}
		numbers = append(numbers, float32(x))
		start = end + 1
	}
	*v = numbers
	return nil
}

func trimSpace(b []byte) string {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return string(b)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
