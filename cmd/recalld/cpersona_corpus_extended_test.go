//go:build extended

package main

import (
	"fmt"
	"math/rand"
	"strings"
)

// scaleFacts are what one record says: no two records of a corpus have the same.
type scaleFacts struct {
	language                     int
	who, deed, hue, thing, place string
	sum                          int
}

// scaleLanguage is what its records are composed of, and how. A deed has the form
// of the text and, behind a slash, that of the question.
type scaleLanguage struct {
	given, family, deeds, hues, things, places []string
	name                                       string // given and family
	text                                       string // who, deed, hue, thing, place, sum
	question                                   string // who, deed, hue, thing
}

var scaleLanguages = []scaleLanguage{
	{
		given:    strings.Fields("Mia Ken Lin Aoi Boris Carla Dev Emil Farid Greta Hana Ivo Jonas Karim Laura Nils"),
		family:   strings.Fields("Tanaka Weber Rossi Novak Silva Haddad Olsen Moreau Keller Patel Larsen Costa Berg Fischer Duarte Lindqvist"),
		deeds:    strings.Fields("repaired/repair rented/rent sold/sell painted/paint moved/move inspected/inspect borrowed/borrow measured/measure cleaned/clean photographed/photograph"),
		hues:     strings.Fields("blue green rusty silver narrow heavy wooden foldable"),
		things:   strings.Fields("turbine ladder printer bicycle generator projector kettle antenna trolley compressor wardrobe telescope lantern freezer harmonica anvil"),
		places:   strings.Fields("Lisbon Kyoto Bergen Porto Zurich Aarhus Turin Ghent Malmo Leipzig Toledo Galway Split Tartu Bilbao Lucca Nantes Graz Brno Uppsala"),
		name:     "%s %s",
		text:     "%[1]s %[2]s the %[3]s %[4]s in %[5]s, for %[6]d euros.",
		question: "Where did %[1]s %[2]s the %[3]s %[4]s?",
	},
	{
		given:    strings.Fields("健太 美咲 翔太 葵 直樹 由美 大輔 千尋 拓也 真央 浩二 彩香 亮 恵子 隆 奈々"),
		family:   strings.Fields("佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 中村 小林 加藤 吉田 山田 松本 井上 木村 清水"),
		deeds:    strings.Fields("修理し 借り 売っ 塗装し 運ん 点検し 撮影し 測定し 掃除し 組み立て"),
		hues:     strings.Fields("青い 緑の 錆びた 銀色の 細い 重い 木製の 折り畳みの"),
		things:   strings.Fields("発電機 梯子 印刷機 自転車 水車 映写機 やかん 鏡台 台車 圧縮機 本棚 望遠鏡 提灯 冷凍庫 太鼓 金床"),
		places:   strings.Fields("京都 札幌 神戸 横浜 長崎 金沢 仙台 奈良 福岡 松江 高松 那覇 富山 熊本 岡山 函館 青森 秋田 静岡 鹿児島"),
		name:     "%[2]s%[1]s",
		text:     "%[1]sは%[5]sで%[3]s%[4]sを%[2]sた。費用は%[6]d円。",
		question: "%[1]sが%[3]s%[4]sを%[2]sたのはどこ?",
	},
	{
		given:    strings.Fields("芳 雷 伟 娜 敏 静 强 磊 军 洋 艳 勇 杰 涛 超 霞"),
		family:   strings.Fields("王 李 张 刘 陈 杨 赵 黄 周 吴 徐 孙 胡 朱 高 林"),
		deeds:    strings.Fields("修理 租用 卖掉 粉刷 搬运 检查 拍摄 测量 清洗 组装"),
		hues:     strings.Fields("蓝色 绿色 生锈 银色 狭长 沉重 木制 折叠"),
		things:   strings.Fields("水泵 梯子 打印机 单车 风扇 投影仪 水壶 天线 推车 压缩机 书架 望远镜 灯笼 冰柜 口琴 铁砧"),
		places:   strings.Fields("北京 成都 杭州 西安 苏州 昆明 青岛 厦门 大连 桂林 武汉 拉萨 洛阳 长沙 南京 哈尔滨 乌鲁木齐 福州 兰州 海口"),
		name:     "%[2]s%[1]s",
		text:     "%[1]s在%[5]s%[2]s了%[3]s的%[4]s,花了%[6]d元。",
		question: "%[1]s在哪里%[2]s了%[3]s的%[4]s?",
	},
}

func (f scaleFacts) text() string {
	deed, _, _ := strings.Cut(f.deed, "/")
	return fmt.Sprintf(scaleLanguages[f.language].text, f.who, deed, f.hue, f.thing, f.place, f.sum)
}

// query asks for a record in one of three ways: a question for the place, three of
// its words, its name and number. Records of which all of that is true give the same query.
func (f scaleFacts) query(way int) string {
	switch way {
	case 0:
		_, deed, ok := strings.Cut(f.deed, "/")
		if !ok {
			deed = f.deed
		}
		return fmt.Sprintf(scaleLanguages[f.language].question, f.who, deed, f.hue, f.thing)
	case 1:
		return f.who + " " + f.place + " " + f.thing
	default:
		return fmt.Sprintf("%s %d", f.who, f.sum)
	}
}

// scaleCorpus composes n records, all different, the languages in turn.
func scaleCorpus(n int) (all []scaleFacts) {
	r := rand.New(rand.NewSource(11))
	pick := func(words []string) string { return words[r.Intn(len(words))] }
	seen := make(map[string]bool, n)
	for len(all) < n {
		l := scaleLanguages[len(all)%len(scaleLanguages)]
		f := scaleFacts{language: len(all) % len(scaleLanguages), who: fmt.Sprintf(l.name, pick(l.given), pick(l.family)), deed: pick(l.deeds), hue: pick(l.hues),
			thing: pick(l.things), place: pick(l.places), sum: 100 + r.Intn(9_900)}
		if text := f.text(); !seen[text] {
			seen[text] = true
			all = append(all, f)
		}
	}
	return all
}

// scaleQuery is one question and the only record that has all that it names.
type scaleQuery struct {
	text   string
	target int // index in the corpus
}

// scaleQueries draws n questions, languages and ways in turn. Others share a part
// of what a question names; only its target has all.
func scaleQueries(corpus []scaleFacts, n int) (queries []scaleQuery) {
	fits := make(map[string]int, 3*len(corpus))
	for _, f := range corpus {
		for way := range 3 {
			fits[f.query(way)]++
		}
	}
	r := rand.New(rand.NewSource(12))
	for len(queries) < n {
		language, way := len(queries)%3, len(queries)/3%3
		at := r.Intn(len(corpus))
		if corpus[at].language != language {
			continue
		}
		if query := corpus[at].query(way); fits[query] == 1 {
			queries = append(queries, scaleQuery{query, at})
		}
	}
	return queries
}
