//! [`SloVersions`]: versions of Koordinator's ConfigMap by chance, from the table of its members: values that are good, and
//! each kind of mistake.

use headroom_rules::{
    SWITCHES,
    slo::{
        Data,
        table::{KEYS, Key, MemberRow, Rule, ValueKind},
    },
};
use serde_json::{Map, Value, json};

/// A version, the one that it replaces, and how it is checked.
#[derive(Debug, Clone)]
pub struct SloVersion {
    /// The version.
    pub new: Data,
    /// The one that it replaces.
    pub old: Option<Data>,
    /// Whether each entry needs a name.
    pub needs_names: bool,
    /// True for Koordinator's behaviour where no switch is named.
    pub is_upstream: bool,
    /// Switches as the flag takes them.
    pub switches: String,
}

/// A series of versions without end. Each seed has its own.
#[derive(Debug)]
pub struct SloVersions {
    dice: Chance,
}

/// Numbers by chance.
#[derive(Debug)]
struct Chance(u64);

/// How often what is written is a mistake: one in so many; 0 for never.
#[derive(Debug, Clone, Copy)]
struct Carelessness(usize);

impl SloVersions {
    /// The series of a seed.
    pub fn new(seed: u64) -> Self {
        Self { dice: Chance(seed) }
    }

    fn data(&mut self) -> Data {
        let care = *self.dice.pick(&[
            Carelessness(0),
            Carelessness(60),
            Carelessness(20),
            Carelessness(8),
        ]);
        let count = 1 + self.dice.below(3);
        let keys = (0..count).map(|_| *self.dice.pick(&KEYS)).collect::<Vec<_>>();
        let mut data: Data = keys
            .into_iter()
            .map(|key| (key.name.to_owned(), self.text(key, care)))
            .collect();
        if self.dice.is_one_in(20) {
            let unknown = *self.dice.pick(&["colocation-confg", "other", "feature-gates"]);
            data.insert(unknown.to_owned(), "x".to_owned());
        }
        data
    }

    /// The text under a key.
    fn text(&mut self, key: &'static Key, care: Carelessness) -> String {
        let document = self.document(key, care);
        let text = document.to_string();
        if !self.dice.is_mistake(care) {
            return text;
        }
        match self.dice.below(9) {
            0 => text.replacen('}', ",}", 1),
            1 => text.chars().take(text.len() / 2).collect(),
            2 => "null".to_owned(),
            3 => "[]".to_owned(),
            4 => String::new(),
            5 => "  ".to_owned(),
            6 => format!("{text} // all"),
            7 => text.to_uppercase(),
            _ => text.replacen('{', r#"{"enable":true,"enable":false,"#, 1),
        }
    }

    fn document(&mut self, key: &'static Key, care: Carelessness) -> Value {
        let members = self.strategy(key, care);
        let mut document = match key.cluster {
            None => members,
            Some(cluster) => Map::from_iter([(cluster.to_owned(), Value::Object(members))]),
        };
        let entries: Vec<Value> = (0..self.dice.below(4))
            .map(|place| self.entry(key, place, care))
            .collect();
        document.insert(key.entries.to_owned(), entries.into());
        if self.dice.is_mistake(care) {
            document.insert("clusterStrategi".to_owned(), Value::Null);
        }
        Value::Object(document)
    }

    fn entry(&mut self, key: &'static Key, place: usize, care: Carelessness) -> Value {
        let mut entry = self.strategy(key, care);
        let name = if self.dice.is_mistake(care) {
            json!(*self.dice.pick(&["", "twice", "<a>&b"]))
        } else {
            json!(format!("entry-{place}"))
        };
        entry.insert("name".to_owned(), name);
        entry.insert("nodeSelector".to_owned(), self.selector(place, care));
        if self.dice.is_mistake(care) {
            return self.dice.pick(&[Value::Null, json!(1), json!({})]).clone();
        }
        Value::Object(entry)
    }

    /// A selector; without mistakes, one that no other entry's overlaps.
    fn selector(&mut self, place: usize, care: Carelessness) -> Value {
        let value = ["a", "b", "c", "d"][place];
        if !self.dice.is_mistake(care.of_selectors()) {
            return match self.dice.below(3) {
                0 => json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": [value]}]}),
                _ => json!({"matchLabels": {"pool": value}}),
            };
        }
        let choices = [
            Value::Null,
            json!({}),
            json!({"matchLabels": {"gpu": "true"}}),
            json!({"matchLabels": {"gpu": "true", "pool": "b"}}),
            json!({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}),
            json!({"matchLabels": {"pool": "a"}}),
            json!({"matchLabels": {"zone": "x y"}}),
            json!({"matchLabels": {"zone": 1}}),
            json!({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}),
            json!({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a", "e"]}]}),
            json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}),
            json!({"matchExpressions": [{"key": "pool", "operator": "in", "values": ["a"]}]}),
            json!({"matchExpressions": [{"key": "a b", "operator": "In", "values": []}]}),
            json!({"matchExpression": []}),
        ];
        self.dice.pick(&choices).clone()
    }

    /// A few members.
    fn strategy(&mut self, key: &'static Key, care: Carelessness) -> Map<String, Value> {
        let rows: Vec<_> = key.rows().collect();
        let mut members = Map::new();
        for _ in 0..self.dice.below(5) {
            let (class, row) = *self.dice.pick(&rows);
            // Shares of bandwidth are compared with each other, so some have to meet.
            let is_share = |&&(_, row): &&(_, &MemberRow)| row.kind == ValueKind::PercentOrQuantity;
            let shares: Vec<_> = rows.iter().filter(is_share).collect();
            let (class, row) = if !shares.is_empty() && self.dice.is_one_in(2) {
                **self.dice.pick(&shares)
            } else {
                (class, row)
            };
            let value = self.value(row, care);
            let path = class.map_or_else(
                || row.member.to_owned(),
                |class| format!("{}.{}", class.member, row.member),
            );
            self.insert(&mut members, &path, &value, care);
        }
        members
    }

    /// Puts a value at a path of the table.
    fn insert(&mut self, members: &mut Map<String, Value>, path: &str, value: &Value, care: Carelessness) {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        let name = head.trim_end_matches(['[', ']', '{', '}']);
        let name = if self.dice.is_mistake(care) {
            self.misspelt(name)
        } else {
            name.to_owned()
        };
        let inner = |this: &mut Self, before: Option<Value>| {
            if rest.is_empty() {
                return value.clone();
            }
            let mut inside = match before {
                Some(Value::Object(inside)) => inside,
                _ => Map::new(),
            };
            this.insert(&mut inside, rest, value, care);
            Value::Object(inside)
        };
        let before = members.remove(&name);
        let written = if head.ends_with("[]") {
            let mut list = match before {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            let last = list.pop().filter(|_| !rest.is_empty());
            list.push(inner(self, last));
            Value::Array(list)
        } else if head.ends_with("{}") {
            let mut map = match before {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            let key = *self.dice.pick(&["cpu", "memory", "a model"]);
            let last = map.remove(key);
            map.insert(key.to_owned(), inner(self, last));
            Value::Object(map)
        } else {
            inner(self, before)
        };
        members.insert(name, written);
    }

    fn misspelt(&mut self, name: &str) -> String {
        match self.dice.below(3) {
            0 => name.to_uppercase(),
            1 => name.chars().skip(1).collect(),
            _ => format!("{name}s"),
        }
    }

    fn value(&mut self, row: &MemberRow, care: Carelessness) -> Value {
        if self.dice.is_mistake(care) {
            let wrong = [
                Value::Null,
                json!("60"),
                json!(60.5),
                json!(true),
                json!([1]),
                json!({"a": 1}),
                json!(-1),
                json!(101),
                json!(1_000_000),
                json!(u64::MAX),
                json!(0.5),
                json!(""),
                json!("10Gbps"),
                json!("5x"),
                json!("bogus"),
            ];
            return self.dice.pick(&wrong).clone();
        }
        let words: Vec<&str> = row
            .words
            .iter()
            .copied()
            .filter(|word| !word.is_empty())
            .collect();
        match row.kind {
            ValueKind::Bool => json!(self.dice.is_one_in(2)),
            ValueKind::Int64 | ValueKind::Int32 => json!(self.number(row.rules)),
            ValueKind::Number => self.ratio(row.rules),
            ValueKind::Text if words.is_empty() => json!("text"),
            ValueKind::Text => json!(*self.dice.pick(&words)),
            ValueKind::Duration => json!(*self.dice.pick(&["5m", "1h30m", "300ms"])),
            ValueKind::Quantity => self.dice.pick(&[json!("10G"), json!("50M"), json!(1000)]).clone(),
            ValueKind::PercentOrQuantity => self.dice.pick(&[json!(20), json!(40), json!("20M")]).clone(),
            ValueKind::Object | ValueKind::Any => json!({"a": {"b": 1}}),
        }
    }

    /// A number in the range of these rules.
    fn ratio(&mut self, rules: &[Rule]) -> Value {
        match rules {
            [] => json!(1),
            [Rule::Hundredths(min, max)] => {
                let hundredths = self.number(&[Rule::Min(*min), Rule::Max(*max)]);
                json!(f64::from(i32::try_from(hundredths).expect("a small number")) / 100.0)
            }
            rules => json!(self.number(rules)),
        }
    }

    /// A whole number in the range of these rules.
    fn number(&mut self, rules: &[Rule]) -> i64 {
        let (mut min, mut max) = (0, 5);
        for rule in rules {
            match *rule {
                Rule::Min(bound) => min = bound,
                Rule::Above(bound) => min = bound + 1,
                Rule::Max(bound) => max = bound,
                Rule::Hundredths(..) | Rule::NotEmpty | Rule::AboveMember(_) | Rule::BelowMember(_) => {}
            }
        }
        let span = usize::try_from(max.max(min) - min).expect("a range") + 1;
        min + i64::try_from(self.dice.below(span)).expect("a small number")
    }
}

impl Carelessness {
    /// Selectors are a few among many values.
    fn of_selectors(self) -> Self {
        Self(self.0.div_ceil(8) * 2)
    }
}

impl Iterator for SloVersions {
    type Item = SloVersion;

    fn next(&mut self) -> Option<SloVersion> {
        let new = self.data();
        let old = match self.dice.below(4) {
            0 => None,
            1 => Some(new.clone()),
            2 => Some(self.data()),
            _ => {
                let mut old = self.data();
                let kept = new.iter().take(1);
                old.extend(kept.map(|(key, text)| (key.clone(), text.clone())));
                Some(old)
            }
        };
        let switch = self.dice.pick(&SWITCHES).name;
        let is_on = self.dice.is_one_in(2);
        Some(SloVersion {
            new,
            old,
            needs_names: self.dice.is_one_in(4),
            is_upstream: self.dice.is_one_in(3),
            switches: if self.dice.is_one_in(2) {
                format!("{switch}={is_on}")
            } else {
                String::new()
            },
        })
    }
}

impl Chance {
    /// The next of 2^64 numbers: those of `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a number");
        usize::try_from(self.next() % end).expect("a number")
    }

    fn is_one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn is_mistake(&mut self, Carelessness(one_in): Carelessness) -> bool {
        one_in > 0 && self.is_one_in(one_in)
    }

    fn pick<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        &choices[self.below(choices.len())]
    }
}
