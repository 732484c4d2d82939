//! Checks ranges of values, and the order of pairs of values.

use std::collections::BTreeMap;

use headroom_domain::field::{BadValue, Error};

use super::{
    document::{Content, Document, Given, Strategy},
    envelope::{self, Reason},
    expected::{expected, hundredths, is_in_range},
    findings::{Findings, path},
    switches::{NEEDS_WORDS, PAIRS_USE_DEFAULTS},
    table::{Key, MemberRow, Rule},
};
use crate::switch::Switches;

/// Maximum number of fields that a refusal names. Koordinator has no limit.
const MOST: usize = 256;

/// Checks all values of a document. Koordinator refuses the values of a key together.
pub(super) fn check(key: &'static Key, document: &Document, switches: &Switches, findings: &mut Findings) {
    let mut check = Ranges {
        key,
        cluster: document.cluster.as_ref(),
        uses_defaults: switches.is_on(&PAIRS_USE_DEFAULTS),
        needs_words: switches.is_on(&NEEDS_WORDS),
        sentences: BTreeMap::new(),
        count: 0,
        findings,
    };
    if let Some(cluster) = &document.cluster {
        check.strategy(cluster, StrategyPlace { key, entry: None });
    }
    for (index, entry) in document.entries.iter().enumerate() {
        let entry_place = StrategyPlace {
            key,
            entry: Some(index),
        };
        check.strategy(&entry.strategy, entry_place);
    }
    let Ranges {
        sentences,
        count,
        findings,
        ..
    } = check;
    if count > MOST {
        findings.warn(|| format!("{}: the message names {MOST} of {count} values", key.name));
    }
    if !sentences.is_empty() {
        findings.refuse(|| envelope::fields(Reason::Parameter, &sentences));
    }
}

struct Ranges<'c> {
    key: &'static Key,
    cluster: Option<&'c Strategy>,
    uses_defaults: bool,
    needs_words: bool,
    /// Koordinator's sentences, by path in its code.
    sentences: BTreeMap<String, String>,
    /// Number of values out of range.
    count: usize,
    findings: &'c mut Findings,
}

/// Position of a strategy: an entry, or all nodes.
#[derive(Debug, Clone, Copy)]
struct StrategyPlace {
    key: &'static Key,
    entry: Option<usize>,
}

impl StrategyPlace {
    fn in_go(self) -> String {
        let Key {
            go_type,
            go_cluster,
            go_entries,
            go_strategy,
            ..
        } = self.key;
        match self.entry {
            None => format!("{go_type}.{go_cluster}"),
            Some(index) => format!("{go_type}.{go_entries}[{index}].{go_strategy}"),
        }
    }

    fn in_json(self) -> String {
        match self.entry {
            None => self.key.cluster.unwrap_or_default().to_owned(),
            Some(index) => format!("{}[{index}]", self.key.entries),
        }
    }
}

/// The other value of a pair.
struct Counterpart {
    number: f64,
    /// Origin in words; empty if it is in the same object as the first.
    origin: &'static str,
}

impl Ranges<'_> {
    fn strategy(&mut self, strategy: &Strategy, place: StrategyPlace) {
        for (own, given) in strategy.iter() {
            let rules = given.field.rules.iter();
            let violation = match (&given.content, given.content.number()) {
                (Content::Text(text), _) => {
                    let is_lacking = self.needs_words && text.is_empty();
                    (is_lacking && given.field.rules.contains(&Rule::NotEmpty)).then(|| {
                        let sentence = format!("{} must not be empty", given.field.go_name());
                        (sentence, expected(given.field))
                    })
                }
                (_, Some(number)) => rules
                    .into_iter()
                    .find_map(|&rule| self.violation(strategy, place, given, rule, number)),
                (_, None) => None,
            };
            if let Some((sentence, detail)) = violation {
                self.add(place, own, given, sentence, &detail);
            }
        }
    }

    fn add(&mut self, place: StrategyPlace, own: &str, given: &Given, sentence: String, detail: &str) {
        self.count += 1;
        if self.sentences.len() < MOST {
            let MemberRow { go, member, .. } = given.field;
            let class = given.class.map(|class| class.go).unwrap_or_default();
            // Names of maps occur only in Headroom's paths.
            let inner = if member.contains('{') { own } else { go };
            let place = place.in_go();
            let parts = [place.as_str(), class, inner];
            let go_path: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            self.sentences.insert(go_path.join("."), sentence);
        }
        let json = place.in_json();
        let json = [json.as_str(), own];
        let json: Vec<&str> = json.into_iter().filter(|part| !part.is_empty()).collect();
        let path = path(self.key, &json.join("."));
        self.findings
            .error(|| Error::invalid(&path, BadValue::from(&given.content), detail));
    }

    /// Returns the fault of a value under a rule: Koordinator's sentence, and Headroom's.
    fn violation(
        &self,
        strategy: &Strategy,
        place: StrategyPlace,
        given: &Given,
        rule: Rule,
        number: f64,
    ) -> Option<(String, String)> {
        if let Rule::AboveMember(sibling) | Rule::BelowMember(sibling) = rule {
            let is_above = matches!(rule, Rule::AboveMember(_));
            return self.pair_violation(strategy, place, given, (sibling, is_above), number);
        }
        if is_in_range(&[rule], number) {
            return None;
        }
        let sentence = match rule {
            Rule::Min(min) => format!("{} or greater", with_commas(min)),
            Rule::Max(max) => format!("{} or less", with_commas(max)),
            Rule::Above(above) => format!("greater than {}", with_commas(above)),
            Rule::Hundredths(min, max) => format!("between {} and {}", hundredths(min), hundredths(max)),
            Rule::NotEmpty | Rule::AboveMember(_) | Rule::BelowMember(_) => return None,
        };
        let field = given.field;
        Some((format!("{} must be {sentence}", field.go_name()), expected(field)))
    }

    /// Returns the fault of a value compared with its counterpart, which must be lower or higher.
    fn pair_violation(
        &self,
        strategy: &Strategy,
        place: StrategyPlace,
        given: &Given,
        (sibling, is_above): (&'static str, bool),
        number: f64,
    ) -> Option<(String, String)> {
        let order = if is_above { "greater" } else { "less" };
        let other = self.sibling_row(given, sibling)?;
        let words = |tail: &str| {
            let sentence = format!(
                "{} must be {order} than {}",
                given.field.go_name(),
                other.go_name()
            );
            Some((sentence, format!("must be {order} than {sibling}{tail}")))
        };
        match self.counterpart(strategy, place, given, other) {
            None if self.uses_defaults => None,
            None => words(", which is not set next to it"),
            Some(Counterpart { number: other, .. }) if number > other && is_above => None,
            Some(Counterpart { number: other, .. }) if number < other && !is_above => None,
            Some(Counterpart { number, origin }) => words(&format!(", which is {number}{origin}")),
        }
    }

    fn sibling_row(&self, given: &Given, name: &str) -> Option<&'static MemberRow> {
        let fields = match given.class {
            Some(_) => self.key.class_fields,
            None => self.key.fields,
        };
        let member = given.field.sibling(name);
        fields.iter().find(|field| field.member == member)
    }

    /// Returns the counterpart's value, from the same object or from the layer below.
    fn counterpart(
        &self,
        strategy: &Strategy,
        place: StrategyPlace,
        given: &Given,
        other: &MemberRow,
    ) -> Option<Counterpart> {
        let find = |strategy: &Strategy| strategy.get_row(given.class, other)?.number();
        if let Some(number) = find(strategy) {
            return Some(Counterpart { number, origin: "" });
        }
        if !self.uses_defaults {
            return None;
        }
        let of_cluster = self.cluster.filter(|_| place.entry.is_some()).and_then(find);
        if let Some(number) = of_cluster {
            let origin = " for all nodes";
            return Some(Counterpart { number, origin });
        }
        let number = other.default_in(given.class)?.parse().ok()?;
        let origin = " by default";
        Some(Counterpart { number, origin })
    }
}

/// Formats a number with commas between thousands.
fn with_commas(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = if number < 0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
