package bench

import (
	"math/rand/v2"
	"strings"
)

// corpusNames is how many rare names a language has.
const corpusNames = 20_000

// namesSeed makes the names; they are the same for every corpus.
const namesSeed = 11

func newCorpusTongue(b *reachBank) *corpusTongue {
	t := &corpusTongue{language: b.language, bank: b}
	r := rand.New(rand.NewPCG(namesSeed, uint64(len(b.language))<<8|uint64(b.language[0])))
	switch b.language {
	case "ja":
		t.opening, t.median = "記録%d番。", 13
		t.forms, t.lists = japaneseForms(), japaneseWords()
		t.names = drawNames(r, "アイウカキクケコサシスタチツテトナニノハヒフホマミムメモヤユヨラリルレロワ", 3, 3)
	case "zh":
		t.opening, t.median = "第%d号记录。", 13
		t.forms, t.lists = chineseForms(), chineseWords()
		t.names = drawNames(r, "安宝昌辰德恩方光海弘嘉建景俊凯兰丽林明宁平启清荣瑞森山泰天文祥新兴雅永远云泽志中", 2, 2)
	default:
		t.gap, t.opening, t.median = " ", "Note %d.", 13
		t.forms, t.lists = englishForms(), englishWords()
		t.names = englishNames(r)
	}
	return t
}

// drawNames are different names of shortest to shortest+more signs.
func drawNames(r *rand.Rand, signs string, shortest, more int) []string {
	letters := []rune(signs)
	return different(func() string {
		name := make([]rune, shortest+r.IntN(more))
		for i := range name {
			name[i] = letters[r.IntN(len(letters))]
		}
		return string(name)
	})
}

func englishNames(r *rand.Rand) []string {
	return different(func() string {
		var name strings.Builder
		for i := range 2 + r.IntN(2) {
			start := "bcdfghjklmnprstvwz"[r.IntN(18)]
			if i == 0 {
				start -= 'a' - 'A'
			}
			name.WriteByte(start)
			name.WriteByte("aeiou"[r.IntN(5)])
			if r.IntN(2) == 0 {
				name.WriteByte("lmnrst"[r.IntN(6)])
			}
		}
		return name.String()
	})
}

func different(draw func() string) []string {
	seen := make(map[string]bool, corpusNames)
	names := make([]string, 0, corpusNames)
	for len(names) < corpusNames {
		if name := draw(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func englishForms() []string {
	return []string{
		"{who} moved the {thing} to {place}, because {name} needed the room.",
		"On {day} {name} asked {who} about the {thing} again.",
		"The {thing} was {state} when we came back from {place}.",
		"{name} and {who} agreed that the {task} can wait until {month}.",
		"We looked at the {task} twice and found nothing that {name} had not said.",
		"Nobody at {place} had seen the {thing} since {day}.",
		"{who} wrote to {name} that the {thing} costs {n} more than last year.",
		"The {task} took {n} hours; however, the {thing} still looks {state}.",
		"If {name} does not answer by {day}, {who} will ask at {place}.",
		"{name} keeps the {thing} at {place} and the key in a drawer.",
		"After the {task} we ate at {place}, and {who} paid for {name}.",
		"I promised {name} to send the list of the {task} before {month}.",
		"The {thing} from {place} is {state}, so {who} ordered {n} new ones.",
		"{who} thinks that the {task} belongs to {name} and not to us.",
	}
}

func englishWords() map[string][]string {
	return map[string][]string{
		"thing": strings.Fields("ladder printer notebook kettle bicycle camera projector suitcase blanket radiator lantern cabinet microphone carpet tripod mailbox heater bookshelf calendar trolley toolbox mirror umbrella stapler whiteboard freezer violin scarf compass router"),
		"place": {"the station", "the library", "the market hall", "the old depot", "the clinic", "the harbour office", "the school", "the bakery", "the attic", "the workshop", "the town hall", "the post office", "the hotel", "the warehouse", "the garden centre", "the archive", "the laboratory", "the museum", "the kitchen", "the gym"},
		"state": strings.Fields("broken dusty empty finished locked heavier warm crooked spotless damp late faded loose noisy missing cheaper"),
		"task":  {"inventory", "tax return", "move", "audit", "rehearsal", "repair", "translation", "interview", "budget", "survey", "painting", "delivery", "inspection", "training", "reunion", "backup", "migration", "harvest"},
	}
}

func japaneseForms() []string {
	return []string{
		"{name}さんが場所を使うので、{thing}を{place}へ移した。",
		"{day}に{name}さんから{thing}のことをまた聞かれた。",
		"{place}から戻ると、{thing}は{state}。",
		"{task}は{month}まで待てると{name}さんと決めた。",
		"{task}を二度見直したが、{name}さんの話のほかには何もなかった。",
		"{day}から{place}で{thing}を見た人はいない。",
		"{thing}は去年より{n}高いと{who}さんが{name}さんに書いた。",
		"{task}には{n}時間かかった。しかし{thing}はまだ{state}。",
		"{day}までに{name}さんの返事がなければ、{who}さんが{place}で尋ねる。",
		"{name}さんは{thing}を{place}に置き、鍵は引き出しにしまっている。",
		"{task}のあと{place}で食事をして、{who}さんが{name}さんの分も払った。",
		"{month}になる前に{task}の一覧を{name}さんへ送ると約束した。",
		"{place}の{thing}は{state}ので、{who}さんが新しいものを{n}個頼んだ。",
		"{task}は私たちではなく{name}さんの仕事だと{who}さんは考えている。",
	}
}

func japaneseWords() map[string][]string {
	return map[string][]string{
		"thing": strings.Fields("はしご 印刷機 手帳 やかん 自転車 写真機 映写機 旅行鞄 毛布 暖房 提灯 戸棚 絨毯 三脚 郵便箱 本棚 暦 台車 道具箱 鏡 傘 白板 冷凍庫 襟巻き 羅針盤"),
		"place": strings.Fields("駅 図書館 市場 古い倉庫 診療所 港の事務所 学校 パン屋 屋根裏 工房 役場 郵便局 宿 園芸店 資料室 研究室 博物館 台所 体育館"),
		"state": strings.Fields("壊れていた 埃だらけだった 空だった 鍵がかかっていた 重くなっていた 曲がっていた 湿っていた 色あせていた 緩んでいた 音がした なくなっていた 安くなっていた"),
		"task":  strings.Fields("棚卸し 確定申告 引っ越し 監査 稽古 修理 翻訳 面接 予算 調査 塗装 配達 点検 研修 同窓会 控えの作成 移行作業 収穫"),
	}
}

func chineseForms() []string {
	return []string{
		"{who}把{thing}搬到了{place}，因为{name}要用那个地方。",
		"{day}{name}又向{who}问起{thing}的事。",
		"我们从{place}回来时，{thing}{state}。",
		"{name}和{who}商定{task}可以等到{month}。",
		"{task}看了两遍，除了{name}说的以外什么也没找到。",
		"从{day}起{place}没有人见过{thing}。",
		"{who}写信告诉{name}，{thing}比去年贵了{n}。",
		"{task}用了{n}个小时，但是{thing}还是{state}。",
		"如果{name}到{day}还不回复，{who}就去{place}问。",
		"{name}把{thing}放在{place}，钥匙收在抽屉里。",
		"{task}之后我们在{place}吃饭，{who}替{name}付了钱。",
		"我答应{name}在{month}以前把{task}的清单寄出去。",
		"{place}的{thing}{state}，所以{who}又订了{n}个新的。",
		"{who}认为{task}是{name}的事，不是我们的。",
	}
}

func chineseWords() map[string][]string {
	return map[string][]string{
		"thing": strings.Fields("梯子 打印机 笔记本 水壶 自行车 照相机 放映机 行李箱 毯子 暖气 灯笼 柜子 话筒 地毯 三脚架 信箱 书架 日历 推车 工具箱 镜子 雨伞 白板 冰柜 围巾 指南针"),
		"place": strings.Fields("车站 图书馆 市场 旧仓库 诊所 港口办公室 学校 面包店 阁楼 工作坊 镇政府 邮局 旅馆 园艺店 档案室 实验室 博物馆 厨房 体育馆"),
		"state": strings.Fields("坏了 落满了灰 空了 锁上了 变重了 歪了 潮了 褪色了 松了 有响声 不见了 便宜了"),
		"task":  strings.Fields("盘点 报税 搬家 审计 排练 修理 翻译 面试 预算 调查 粉刷 送货 检查 培训 聚会 备份 迁移 收割"),
	}
}
