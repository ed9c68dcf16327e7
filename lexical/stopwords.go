package lexical

// stopword reports whether a folded English word says so little that neither
// text nor query keeps it. Question words are in the list: a question asks with
// them, an answer is not written in them.
func stopword(w string) bool {
	switch w {
	case "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "aren", "as", "at",
		"be", "because", "been", "before", "being", "but", "by",
		"can", "could", "couldn",
		"did", "didn", "do", "does", "doesn", "doing", "don", "down", "during",
		"each",
		"few", "for", "from",
		"had", "hadn", "has", "hasn", "have", "haven", "having", "he", "her", "here", "hers", "herself", "him", "himself", "his", "how",
		"i", "if", "in", "into", "is", "isn", "it", "its", "itself",
		"just",
		"me", "mightn", "more", "most", "mustn", "my", "myself",
		"needn", "no", "nor", "not", "now",
		"of", "off", "on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own",
		"same", "shan", "she", "should", "shouldn", "so", "some", "such",
		"than", "that", "the", "their", "theirs", "them", "themselves", "then", "there", "these", "they", "this", "those", "through", "to", "too",
		"under", "until", "up", "us",
		"very",
		"was", "wasn", "we", "were", "weren", "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "wouldn",
		"you", "your", "yours", "yourself", "yourselves":
		return true
	}
	return false
}

// contraction reports whether a folded word with an apostrophe is made of stop
// words alone although its head, cut at the apostrophe, is a word of its own.
func contraction(w string) bool {
	switch w {
	case "won't", "ain't", "let's", "y'all", "ma'am", "o'clock":
		return true
	}
	return false
}
