//! [`CaseTable`]: the tables of cases in tests/fixtures/cases, as they stand there.

use std::{collections::BTreeMap, fs, path::Path};

use headroom_rules::profile;
use serde::Deserialize;
use serde_json::Value;

use super::{answer::ExpectedAnswer, world::CaseWorld};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseTable {
    /// Objects by the names that rows have for them.
    pub(super) bases: BTreeMap<String, Value>,
    pub(super) sections: Vec<CaseSection>,
}

/// Cases that one step answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseSection {
    #[serde(rename = "about")]
    _about: String,
    /// The label of an endpoint.
    pub(super) endpoint: String,
    /// Step of the endpoint; `None` outside the steps.
    pub(super) step: Option<String>,
    #[serde(rename = "cases")]
    _cases: String,
    base: Option<String>,
    resource: Option<String>,
    #[serde(default)]
    pub(super) rows: Vec<CaseRow>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseRow {
    pub(super) id: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) gates: String,
    #[serde(default)]
    pub(super) switches: String,
    #[serde(default)]
    pub(super) world: CaseWorld,
    /// Random values for colocation profiles.
    #[serde(default)]
    draws: BTreeMap<String, u8>,
    base: Option<String>,
    #[serde(default)]
    delta: Value,
    /// Fields of the stored object, merged into the base.
    #[serde(default)]
    old: Value,
    /// Texts of the ConfigMap that is sent, by key.
    data: Option<BTreeMap<String, String>>,
    /// Data of the stored object.
    old_data: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) has_no_object: bool,
    #[serde(default)]
    pub(super) has_no_old_object: bool,
    #[serde(default = "create")]
    pub(super) operation: String,
    resource: Option<String>,
    /// Kind in the review, if it differs from the object's.
    pub(super) kind: Option<String>,
    #[serde(default = "somebody")]
    pub(super) user: String,
    /// Groups of the user.
    #[serde(default)]
    pub(super) groups: Vec<String>,
    /// The namespace of the request, where the object has none.
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) is_dry_run: bool,
    pub(super) expect: Expectation,
}

/// Expected answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    /// By default; a case that is not run has none.
    pub(super) ours: Option<ExpectedAnswer>,
    /// With `--compat upstream`, where it is another.
    pub(super) upstream: Option<ExpectedAnswer>,
    /// The switch that makes the difference.
    pub(super) by: Option<String>,
    /// Koordinator's answer that Headroom does not offer.
    pub(super) not_offered: Option<NotOffered>,
    /// Of every answer that is not a failed call.
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    /// Text of the details, if given.
    pub(super) causes: Option<Vec<String>>,
    /// Result of a second run if it changes the result of the first one.
    #[serde(default)]
    pub(super) again: Again,
}

/// Answers to the result of the first answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Again {
    pub(super) ours: Option<ExpectedAnswer>,
    /// With `--compat upstream`, where it is another.
    pub(super) upstream: Option<ExpectedAnswer>,
}

/// An answer of Koordinator that is a defect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotOffered {
    pub(super) koordinator: String,
    pub(super) why: String,
}

fn create() -> String {
    "CREATE".to_owned()
}

fn somebody() -> String {
    "somebody".to_owned()
}

impl CaseTable {
    /// Every table, by the name of its file.
    pub(super) fn all() -> BTreeMap<String, Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/cases");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|file| {
                let name = file.file_name().unwrap().to_str().unwrap().to_owned();
                (name, headroom_kit::config::load(&file).unwrap())
            })
            .collect()
    }
}

impl CaseRow {
    /// The object that is sent, and the stored one.
    pub(super) fn objects(&self, table: &CaseTable, section: &CaseSection) -> (Value, Value) {
        let name = self.base.as_ref().or(section.base.as_ref()).expect("a base");
        let mut stored = table.bases[name].clone();
        let mut sent = stored.clone();
        merge(&mut sent, &self.delta);
        merge(&mut stored, &self.old);
        for (object, data) in [(&mut sent, &self.data), (&mut stored, &self.old_data)] {
            for (key, text) in data.iter().flatten() {
                object["data"][key] = text.clone().into();
            }
        }
        (sent, stored)
    }

    /// UID of a review for which the random draw matches the row.
    pub(super) fn uid(&self) -> String {
        let mut uids = (0..1_000_000).map(|number| format!("review-{number}"));
        let is_drawn = |uid: &String| {
            let mut draws = self.draws.iter();
            draws.all(|(name, number)| profile::draw(uid, name) == *number)
        };
        uids.find(is_drawn).expect("a UID with these draws")
    }

    pub(super) fn resource<'r>(&'r self, section: &'r CaseSection) -> &'r str {
        self.resource
            .as_ref()
            .or(section.resource.as_ref())
            .expect("a resource")
    }
}

/// Placeholder in an array for a removed element.
const REMOVED: &str = "$removed";

/// Merges objects member by member and arrays place by place; `null` removes a member.
pub(super) fn merge(value: &mut Value, delta: &Value) {
    match (value, delta) {
        (Value::Object(members), Value::Object(delta)) => {
            for (name, delta) in delta {
                if delta.is_null() {
                    members.remove(name);
                } else {
                    merge(members.entry(name).or_insert(Value::Null), delta);
                }
            }
        }
        (Value::Array(elements), Value::Array(delta)) => {
            elements.resize(elements.len().max(delta.len()), Value::Null);
            let places = elements.iter_mut().zip(delta);
            places.for_each(|(element, delta)| merge(element, delta));
            elements.retain(|element| *element != REMOVED);
        }
        (_, Value::Null) => {}
        (value, delta) => *value = delta.clone(),
    }
}
