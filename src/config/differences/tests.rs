//! Differences between configurations, and their hash.

use super::*;

fn settings(text: &str) -> ConfigValues {
    let table: Table = toml::from_str(text).expect(text);
    let mut settings = ConfigValues::default();
    table.iter().for_each(|(key, value)| settings.add(key, value));
    settings
}

/// Returns the two lists of differences, as text.
fn differences(old: &str, new: &str) -> (Vec<String>, Vec<String>) {
    let Differences { at_run_time, at_start } = settings(old).differences(&settings(new));
    let shown = |list: Vec<Difference>| list.iter().map(Difference::to_string).collect();
    (shown(at_run_time), shown(at_start))
}

#[test]
fn entries_are_identified_by_name_and_their_order_counts() {
    let (a, b) = ("[[pool]]\nmatch = \"a\"\ncapacity = 1\n", "[[pool]]\nmatch = \"b\"\n");
    let (found, _) = differences(&format!("{a}{b}"), &format!("{b}{a}"));
    assert_eq!(found, ["pool: old = \"a\", \"b\", new = \"b\", \"a\""]);
    let changed = "[[pool]]\nmatch = \"b\"\ncapacity = 5\nnamespace = \"acme*\"\n";
    let (found, _) = differences(a, &format!("{changed}{a}"));
    assert_eq!(
        found,
        [
            "pool: old = \"a\", new = \"b\" in \"acme*\", \"a\"",
            "pool[\"b\" in \"acme*\"].capacity: old = not set, new = 5"
        ]
    );
    // Two entries of the same glob.
    let (found, _) = differences(&format!("{a}{a}"), a);
    assert_eq!(found[1], "pool[\"a\" #2].capacity: old = 1, new = not set");
    let limit =
        |max| format!("[[policy]]\nname = \"p\"\n[[policy.limit]]\nmax = {max}\nwindow = \"1s\"\n");
    let (found, _) = differences(&limit(1), &limit(2));
    assert_eq!(found, ["policy[\"p\"].limit[0].max: old = 1, new = 2"]);
}

#[test]
fn secrets_are_compared_and_not_shown() {
    let engine = |password: &str| format!("engine = \"redis://u:{password}@h:1/0?a=b\"\n");
    let (_, found) = differences(&engine("one"), &engine("two"));
    let masked = "\"redis://…@h:1/0?…\"";
    assert_eq!(found, [format!("engine: old = {masked}, new = {masked}")]);
    let caller =
        |digest: &str| format!("[[caller]]\nname = \"c\"\ntoken_sha256 = [\"{digest}\"]\n");
    let (found, _) = differences(&caller("one"), &caller("two"));
    assert_eq!(found, ["caller[\"c\"].token_sha256: old = …, new = …"]);
    assert_eq!(without_secrets("https://issuer/keys?key=x"), "https://issuer/keys?…");
    assert_eq!(without_secrets("/a/file"), "/a/file");
}

#[test]
fn keys_read_at_start_need_a_restart() {
    for text in ["workers = 2", "[redis]\nkey_prefix = \"x\"", "x = 1"] {
        let (applies, needs_restart) = differences("", text);
        assert_eq!((applies.len(), needs_restart.len()), (0, 1), "{text}");
    }
    for text in [
        "log_level = \"warn\"",
        "[jwt]\nissuer = \"x\"",
        "[tls]\ncert = \"x\"",
        "[limits]\nwaiters = 1",
    ] {
        let (applies, needs_restart) = differences("", text);
        assert_eq!((applies.len(), needs_restart.len()), (1, 0), "{text}");
    }
    assert!(differences("workers = 2", "workers = 2").1.is_empty());
}

/// Calls `check` with each table that differs from `table` in one value, and with its key.
fn each_changed(table: &Table, check: &mut impl FnMut(&str, Table)) {
    for (key, value) in table {
        each_changed_value(value, &mut |path, value| {
            let mut changed = table.clone();
            changed.insert(key.clone(), value);
            check(&format!("{key}{path}"), changed);
        });
    }
}

fn each_changed_value(value: &Value, check: &mut dyn FnMut(&str, Value)) {
    match value {
        Value::Table(table) => each_changed(table, &mut |path, changed| {
            check(&format!(".{path}"), Value::Table(changed));
        }),
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                each_changed_value(value, &mut |path, value| {
                    let mut changed = values.clone();
                    changed[index] = value;
                    check(&format!("[{index}]{path}"), Value::Array(changed));
                });
            }
            check("[]", Value::Array([&values[..], &[Value::Boolean(true)]].concat()));
        }
        Value::String(text) => check("", Value::String(format!("{text}x"))),
        Value::Integer(number) => check("", Value::Integer(number + 1)),
        Value::Float(number) => check("", Value::Float(number + 1.0)),
        Value::Boolean(is_on) => check("", Value::Boolean(!is_on)),
        Value::Datetime(_) => panic!("no key is a date"),
    }
}

#[test]
fn j11_a_change_of_any_single_key_is_a_difference() {
    let text = include_str!("../../../deploy/tollgate.toml").replace("#: ", "");
    let documented: Table = toml::from_str(&text).expect("the examples fit together");
    let listed = |table: &Table| {
        let mut settings = ConfigValues::default();
        table.iter().for_each(|(key, value)| settings.add(key, value));
        settings
    };
    let (old, mut count) = (listed(&documented), 0);
    each_changed(&documented, &mut |key, changed| {
        let Differences { at_run_time, at_start } = old.differences(&listed(&changed));
        assert!(!at_run_time.is_empty() || !at_start.is_empty(), "{key}");
        count += 1;
    });
    assert!(count > 100, "{count} keys");
    let namespace = |name: &str| {
        format!("[[caller]]\nname = \"c\"\nnamespace = \"{name}\"\nallow = [\"use\"]\n")
    };
    let (found, _) = differences(&namespace("a"), &namespace("b"));
    assert_eq!(found, ["caller[\"c\"].namespace: old = \"a\", new = \"b\""]);
}

#[test]
fn j32_the_hash_covers_what_servers_share() {
    let hash = |text: &str| settings(text).hash();
    let shared = "[[pool]]\nmatch = \"a\"\ncapacity = 1\n";
    for own in [
        "listen = \"10.0.0.1:1\"\n",
        "admin = \"10.0.0.1:2\"\nworkers = 3\nlog_level = \"debug\"\n# a comment\n",
        "data_dir = \"/a\"\n[tls]\ncert = \"/a.crt\"\nkey = \"/a.key\"\n",
    ] {
        assert_eq!(hash(&format!("{own}{shared}")), hash(shared), "{own}");
    }
    let caller = |digest: &str| {
        format!("[[caller]]\nname = \"c\"\ntoken_sha256 = [\"{digest}\"]\nallow = []\n")
    };
    let all = ["", shared, &shared.replace('1', "2"), &caller("a"), &caller("b")].map(hash);
    for (index, hash) in all.iter().enumerate() {
        assert!(!all[..index].contains(hash), "{all:?}");
    }
}
