//! [`SloVersions`]: random versions of Koordinator's ConfigMap from the table of its members, with valid values and
//! all kinds of mistakes.

use headroom_rules::{
    SWITCHES,
    slo::{
        Data,
        table::{KEYS, Key, MemberRow, Rule, ValueKind},
    },
};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use crate::random::Draw;

/// A version with its previous version and the settings of its check.
#[derive(Debug, Clone)]
pub struct SloVersion {
    pub new: Data,
    pub old: Option<Data>,
    /// True if each entry needs a name.
    pub needs_names: bool,
    /// True for Koordinator's behaviour of all switches that are not named.
    pub is_upstream: bool,
    /// Value of the switches flag.
    pub switches: String,
}

/// An endless series of versions.
#[derive(Debug)]
pub struct SloVersions {
    random: ChaCha8Rng,
}

/// Probability of a mistake: one in this number; 0 for never.
#[derive(Debug, Clone, Copy)]
struct MistakeRate(usize);

impl SloVersions {
    /// Equal seeds give equal series.
    pub fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    fn data(&mut self) -> Data {
        let rate = *self
            .random
            .pick(&[MistakeRate(0), MistakeRate(60), MistakeRate(20), MistakeRate(8)]);
        let count = 1 + self.random.below(3);
        let keys = (0..count).map(|_| *self.random.pick(&KEYS)).collect::<Vec<_>>();
        let mut data: Data = keys
            .into_iter()
            .map(|key| (key.name.to_owned(), self.text(key, rate)))
            .collect();
        if self.random.is_one_in(20) {
            let unknown = *self.random.pick(&["colocation-confg", "other", "feature-gates"]);
            data.insert(unknown.to_owned(), "x".to_owned());
        }
        data
    }

    /// The text under a key.
    fn text(&mut self, key: &'static Key, rate: MistakeRate) -> String {
        let document = self.document(key, rate);
        let text = document.to_string();
        if !rate.is_due(&mut self.random) {
            return text;
        }
        match self.random.below(9) {
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

    fn document(&mut self, key: &'static Key, rate: MistakeRate) -> Value {
        let members = self.strategy(key, rate);
        let mut document = match key.cluster {
            None => members,
            Some(cluster) => Map::from_iter([(cluster.to_owned(), Value::Object(members))]),
        };
        let entries: Vec<Value> = (0..self.random.below(4))
            .map(|place| self.entry(key, place, rate))
            .collect();
        document.insert(key.entries.to_owned(), entries.into());
        if rate.is_due(&mut self.random) {
            document.insert("clusterStrategi".to_owned(), Value::Null);
        }
        Value::Object(document)
    }

    fn entry(&mut self, key: &'static Key, place: usize, rate: MistakeRate) -> Value {
        let mut entry = self.strategy(key, rate);
        let name = if rate.is_due(&mut self.random) {
            json!(*self.random.pick(&["", "twice", "<a>&b"]))
        } else {
            json!(format!("entry-{place}"))
        };
        entry.insert("name".to_owned(), name);
        entry.insert("nodeSelector".to_owned(), self.selector(place, rate));
        if rate.is_due(&mut self.random) {
            return self.random.pick(&[Value::Null, json!(1), json!({})]).clone();
        }
        Value::Object(entry)
    }

    /// A selector; without mistakes, it overlaps no other entry's.
    fn selector(&mut self, place: usize, rate: MistakeRate) -> Value {
        let value = ["a", "b", "c", "d"][place];
        if !rate.of_selectors().is_due(&mut self.random) {
            return match self.random.below(3) {
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
        self.random.pick(&choices).clone()
    }

    fn strategy(&mut self, key: &'static Key, rate: MistakeRate) -> Map<String, Value> {
        let rows: Vec<_> = key.rows().collect();
        let mut members = Map::new();
        for _ in 0..self.random.below(5) {
            let (class, row) = *self.random.pick(&rows);
            // Shares of bandwidth are compared with each other, so some versions must contain several.
            let is_share = |&&(_, row): &&(_, &MemberRow)| row.kind == ValueKind::PercentOrQuantity;
            let shares: Vec<_> = rows.iter().filter(is_share).collect();
            let (class, row) = if !shares.is_empty() && self.random.is_one_in(2) {
                **self.random.pick(&shares)
            } else {
                (class, row)
            };
            let value = self.value(row, rate);
            let path = class.map_or_else(
                || row.member.to_owned(),
                |class| format!("{}.{}", class.member, row.member),
            );
            self.insert(&mut members, &path, &value, rate);
        }
        members
    }

    /// Inserts a value at a path of the table.
    fn insert(&mut self, members: &mut Map<String, Value>, path: &str, value: &Value, rate: MistakeRate) {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        let name = head.trim_end_matches(['[', ']', '{', '}']);
        let name = if rate.is_due(&mut self.random) {
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
            this.insert(&mut inside, rest, value, rate);
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
            let key = *self.random.pick(&["cpu", "memory", "a model"]);
            let last = map.remove(key);
            map.insert(key.to_owned(), inner(self, last));
            Value::Object(map)
        } else {
            inner(self, before)
        };
        members.insert(name, written);
    }

    fn misspelt(&mut self, name: &str) -> String {
        match self.random.below(3) {
            0 => name.to_uppercase(),
            1 => name.chars().skip(1).collect(),
            _ => format!("{name}s"),
        }
    }

    fn value(&mut self, row: &MemberRow, rate: MistakeRate) -> Value {
        if rate.is_due(&mut self.random) {
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
            return self.random.pick(&wrong).clone();
        }
        let words: Vec<&str> = row
            .words
            .iter()
            .copied()
            .filter(|word| !word.is_empty())
            .collect();
        match row.kind {
            ValueKind::Bool => json!(self.random.is_one_in(2)),
            ValueKind::Int64 | ValueKind::Int32 => json!(self.number(row.rules)),
            ValueKind::Number => self.ratio(row.rules),
            ValueKind::Text if words.is_empty() => json!("text"),
            ValueKind::Text => json!(*self.random.pick(&words)),
            ValueKind::Duration => json!(*self.random.pick(&["5m", "1h30m", "300ms"])),
            ValueKind::Quantity => self
                .random
                .pick(&[json!("10G"), json!("50M"), json!(1000)])
                .clone(),
            ValueKind::PercentOrQuantity => self.random.pick(&[json!(20), json!(40), json!("20M")]).clone(),
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
        min + i64::try_from(self.random.below(span)).expect("a small number")
    }
}

impl MistakeRate {
    fn is_due(self, random: &mut impl Draw) -> bool {
        let Self(one_in) = self;
        one_in > 0 && random.is_one_in(one_in)
    }

    /// Higher, because there are few selectors among many values.
    fn of_selectors(self) -> Self {
        Self(self.0.div_ceil(8) * 2)
    }
}

impl Iterator for SloVersions {
    type Item = SloVersion;

    fn next(&mut self) -> Option<SloVersion> {
        let new = self.data();
        let old = match self.random.below(4) {
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
        let switch = self.random.pick(&SWITCHES).name;
        let is_on = self.random.is_one_in(2);
        Some(SloVersion {
            new,
            old,
            needs_names: self.random.is_one_in(4),
            is_upstream: self.random.is_one_in(3),
            switches: if self.random.is_one_in(2) {
                format!("{switch}={is_on}")
            } else {
                String::new()
            },
        })
    }
}
