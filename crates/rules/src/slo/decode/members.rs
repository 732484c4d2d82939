//! Reads the members of a strategy by their rows.

use super::{
    super::{
        document::{Given, Strategy},
        expected::expected,
        json::{JsonKind, Value},
        nearest::nearest,
        table::{Class, Key, MemberRow, ValueKind},
    },
    Place, Reader, joined,
    leaf::{self, Mismatch},
    mismatch,
};

/// Reads members into a strategy.
#[derive(Debug)]
pub(super) struct MemberReader<'r> {
    pub(super) reader: &'r mut Reader,
    pub(super) place: Place,
    pub(super) strategy: &'r mut Strategy,
}

/// An object whose members are read: the rows that may be there, and where it is.
#[derive(Debug)]
struct Object {
    fields: &'static [MemberRow],
    class: Option<&'static Class>,
    /// What the paths of its rows begin with, up to its members.
    prefix: &'static str,
    /// Its path below the strategy.
    own: String,
}

/// A row, and how much of its path has been gone.
#[derive(Debug, Clone, Copy)]
struct Step {
    field: &'static MemberRow,
    gone: usize,
}

impl MemberReader<'_> {
    /// Reads a member of the strategy itself.
    pub(super) fn top(&mut self, name: &str, value: Value<'_>) {
        let key = self.reader.key;
        let class = key.classes.iter().find(|class| is_same_name(name, class.member));
        let Some(class) = class else {
            let object = Object {
                fields: key.fields,
                class: None,
                prefix: "",
                own: String::new(),
            };
            return self.member(&object, name, value);
        };
        let object = Object {
            fields: key.class_fields,
            class: Some(class),
            prefix: "",
            own: class.member.to_owned(),
        };
        if value.is_null() {
            self.strategy.remove(class.member);
        } else if value.is_object_or_null() {
            self.members(&object, value);
        } else {
            let go_type = "v1alpha1.ResourceQOS";
            self.container_fault(&object.own, value, "must be a JSON object", go_type);
        }
    }

    fn members(&mut self, object: &Object, value: Value<'_>) {
        for (name, member) in value.members() {
            self.member(object, &name, member);
        }
    }

    fn member(&mut self, object: &Object, name: &str, value: Value<'_>) {
        let Some((segment, field)) = row(object.fields, object.prefix, name) else {
            return self.unknown(object, name);
        };
        let step = Step {
            field,
            gone: object.prefix.len() + segment.len(),
        };
        self.value(object, step, joined(&object.own, segment), value);
    }

    /// Reads what is at a path, which ends there, or goes on in an object, a list or a map.
    fn value(&mut self, object: &Object, step: Step, own: String, value: Value<'_>) {
        let Step { field, gone } = step;
        let rest = field.member.get(gone..).unwrap_or_default();
        if value.is_null() && !(rest.is_empty() && field.kind == ValueKind::Duration) {
            self.strategy.remove(&own);
        } else if rest.is_empty() {
            self.leaf(object.class, field, own, value);
        } else if rest.starts_with("[]") {
            let step = Step {
                gone: gone + 2,
                ..step
            };
            self.list(object, step, &own, value);
        } else if value.kind() != JsonKind::Object {
            self.container_fault(&own, value, "must be a JSON object", field.go_name());
        } else if rest.starts_with("{}") {
            let step = Step {
                gone: gone + 2,
                ..step
            };
            for (name, value) in value.members() {
                self.value(object, step, format!("{own}[{name}]"), value);
            }
        } else {
            let inner = Object {
                fields: object.fields,
                class: object.class,
                prefix: field.member.get(..=gone).unwrap_or_default(),
                own,
            };
            self.members(&inner, value);
        }
    }

    fn list(&mut self, object: &Object, step: Step, own: &str, value: Value<'_>) {
        if value.kind() != JsonKind::List {
            return self.container_fault(own, value, "must be a list", step.field.go_name());
        }
        self.strategy.remove(own);
        for (index, value) in value.elements().enumerate() {
            self.value(object, step, format!("{own}[{index}]"), value);
        }
    }

    fn leaf(
        &mut self,
        class: Option<&'static Class>,
        field: &'static MemberRow,
        own: String,
        value: Value<'_>,
    ) {
        let mismatch = match leaf::read(field.kind, value) {
            Ok(content) => {
                let given = Given {
                    class,
                    field,
                    content,
                };
                return self.strategy.set(own, given);
            }
            Err(mismatch) => mismatch,
        };
        let go = match mismatch {
            Mismatch::Type(found, go_type) => self.mismatch(&found, &own, go_type),
            Mismatch::Refused(reason) => reason,
        };
        let path = joined(&self.base(), &own);
        self.reader.fault(&path, value, &expected(field), go);
    }

    fn container_fault(&mut self, own: &str, value: Value<'_>, expected: &str, go_type: &str) {
        let go = self.mismatch(value.kind().go_name(), own, go_type);
        let path = joined(&self.base(), own);
        self.reader.fault(&path, value, expected, go);
    }

    fn mismatch(&self, found: &str, own: &str, go_type: &str) -> String {
        let (go_struct, go_path) = self.place.in_go(self.reader.key);
        mismatch(found, go_struct, &joined(&go_path, own), go_type)
    }

    fn base(&self) -> String {
        self.place.base(self.reader.key)
    }

    fn unknown(&mut self, object: &Object, name: &str) {
        let base = joined(&self.base(), &object.own);
        let key = self.reader.key;
        self.reader.unknown(&base, name, |base| {
            let known = rows(object.fields, object.prefix).map(|(known, _)| known);
            let is_strategy = object.own.is_empty();
            let classes = key.classes.iter().map(|class| class.member);
            let classes = classes.filter(|_| is_strategy);
            let entries = (is_strategy && key.cluster.is_none()).then_some(key.entries);
            let known = known.chain(classes).chain(entries);
            nearest(name, known).map(|near| joined(base, near))
        });
    }
}

/// The member that a name stands for, with a row that goes through it: the one of that very name, or else one that Go takes
/// for it.
fn row(fields: &'static [MemberRow], prefix: &str, name: &str) -> Option<(&'static str, &'static MemberRow)> {
    let (start, end) = (prefix.len(), prefix.len() + name.len());
    let exact = fields.iter().find_map(|field| {
        // Most rows have no end of a name there, and are not compared at all.
        let is_end = match field.member.as_bytes().get(end) {
            None => field.member.len() == end,
            Some(next) => b".[{".contains(next),
        };
        let segment = is_end.then(|| field.member.get(start..end))??;
        (segment == name && field.member.starts_with(prefix)).then_some((segment, field))
    });
    let is_same = |(known, _): &(&str, &MemberRow)| is_same_name(name, known);
    exact.or_else(|| rows(fields, prefix).find(is_same))
}

/// The members of an object, each with a row that goes through it.
fn rows(
    fields: &'static [MemberRow],
    prefix: &str,
) -> impl Iterator<Item = (&'static str, &'static MemberRow)> {
    fields.iter().filter_map(move |field| {
        let rest = field.member.strip_prefix(prefix)?;
        Some((rest.split(['.', '[', '{']).next()?, field))
    })
}

/// The members of a strategy itself.
pub(super) fn names(key: &'static Key) -> impl Iterator<Item = &'static str> {
    let classes = key.classes.iter().map(|class| class.member);
    rows(key.fields, "").map(|(name, _)| name).chain(classes)
}

/// Whether Go takes one name for the other: by letters, whatever their case, with two that look like letters of ours.
pub(crate) fn is_same_name(name: &str, known: &str) -> bool {
    let fold = |character: char| match character {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(known.chars().map(fold))
}
