package ingest

import (
	"strings"

	"recalld/memory"
)

// graphLine is a line of the file that the knowledge-graph memory server of the
// Model Context Protocol keeps: an entity or a relation.
type graphLine struct {
	Type         string   `json:"type"`
	Name         string   `json:"name"`
	EntityType   string   `json:"entityType"`
	Observations []string `json:"observations"`
	From         string   `json:"from"`
	To           string   `json:"to"`
	RelationType string   `json:"relationType"`
}

// decodeGraphLine makes a record of each observation, "name: observation", with
// the entity as source; of an entity without observations, one that says what it
// is; of a relation, one that says it.
func decodeGraphLine(line []byte) ([]Item, error) {
	var g graphLine
	if err := decodeLoose(line, &g); err != nil {
		return nil, err
	}
	switch g.Type {
	case "entity":
		return g.entity()
	case "relation":
		return g.relation()
	}
	return nil, &memory.FieldError{Field: "type", Problem: memory.Shape(g.Type) + " is unknown", Limit: "entity, relation", Next: "give the memory server's file as it is"}
}

func (g *graphLine) entity() ([]Item, error) {
	if strings.TrimSpace(g.Name) == "" {
		return nil, &memory.FieldError{Field: "name", Problem: "is empty", Limit: "the entity's name", Next: "remove the line"}
	}
	source := memory.Source{Type: FormatMCPMemory, ID: g.Name, Name: g.EntityType}
	metadata := withMetadata(nil, map[string]any{"entity": g.Name, "entity_type": g.EntityType})
	if len(g.Observations) == 0 {
		text := g.Name
		if g.EntityType != "" {
			text += " (" + g.EntityType + ")"
		}
		return []Item{{Type: TypeMemory, Content: text, Source: source, Metadata: metadata}}, nil
	}
	var items []Item
	for _, observation := range g.Observations {
		if strings.TrimSpace(observation) == "" {
			continue
		}
		items = append(items, split(Item{Type: TypeMemory, Content: g.Name + ": " + observation, Source: source, Metadata: metadata})...)
	}
	return items, nil
}

func (g *graphLine) relation() ([]Item, error) {
	for _, f := range []struct{ name, value string }{{"from", g.From}, {"to", g.To}, {"relationType", g.RelationType}} {
		if strings.TrimSpace(f.value) == "" {
			return nil, &memory.FieldError{Field: f.name, Problem: "is empty", Limit: "both entities and the relation between them", Next: "remove the line"}
		}
	}
	return []Item{{
		Type:     TypeMemory,
		Content:  g.From + " " + strings.ReplaceAll(g.RelationType, "_", " ") + " " + g.To,
		Source:   memory.Source{Type: FormatMCPMemory, ID: g.From, Name: "relation"},
		Metadata: withMetadata(nil, map[string]any{"from": g.From, "relation": g.RelationType, "to": g.To}),
	}}, nil
}
