package embed

// ProbeVersion names the list of probe sentences. A change of the list is a new
// version, and identities of different versions are never compared.
const ProbeVersion = 1

// probes are the sentences whose vectors identify a model. They are short, of
// three languages, about unlike subjects, and hold digits, code, and mixed
// scripts, so that a change of tokenizer, prompt or weights moves at least one.
func probes() []string {
	return []string{
		"The night train to the coast leaves at half past nine.",
		"Restart the billing service after you rotate its database password.",
		"He whistles the same tune whenever the soup begins to boil.",
		"func Open(path string) (*File, error) returns os.ErrNotExist",
		"雨の日は図書館で古い地図を眺めて過ごします。",
		"本番サーバーのログは14日で削除される設定です。",
		"妹は猫を二匹飼っていて、どちらも白い。",
		"スプリント42のretrospectiveはZoomで行う",
		"他每天早上骑自行车去河边钓鱼。",
		"数据库备份在凌晨三点自动开始。",
		"这家面馆的老板会说四种方言。",
		"请在Kubernetes集群里把副本数改成3",
	}
}
