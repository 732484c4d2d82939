//! Declares the keys of the ConfigMap and their members once: parser, checks, error messages, schemas and reference
//! pages follow from these rows.

mod amplification;
mod burst;
mod classes;
mod colocation;
mod host;
mod keys;
mod normalization;
mod qos;
mod system;
mod threshold;
pub(super) mod tree;

pub use self::keys::{AMPLIFICATION, BURST, COLOCATION, HOST, KEYS, NORMALIZATION, QOS, SYSTEM, THRESHOLD};

/// A key of the ConfigMap, with all its members.
#[derive(Debug)]
pub struct Key {
    /// Name of the key in `data`.
    pub name: &'static str,
    /// Purpose of the key, for schemas and reference pages.
    pub about: &'static str,
    /// Koordinator's word for the key in an error.
    pub label: &'static str,
    /// Go type of its document, which Koordinator's errors contain.
    pub go_type: &'static str,
    /// Member with the strategy for all nodes; `None` if the document itself contains its members.
    pub cluster: Option<&'static str>,
    /// Go field of the strategy for all nodes.
    pub go_cluster: &'static str,
    /// Member with the entries for some nodes.
    pub entries: &'static str,
    /// Go field of the entries.
    pub go_entries: &'static str,
    /// Go type of an entry.
    pub go_entry_type: &'static str,
    /// Go type of a strategy, in an entry and for all nodes.
    pub go_strategy: &'static str,
    /// Members without those of QoS classes.
    pub fields: &'static [MemberRow],
    /// QoS classes with their own members.
    pub classes: &'static [Class],
    /// Members of each QoS class.
    pub class_fields: &'static [MemberRow],
    /// True if Koordinator checks the key before it is stored.
    pub is_checked_upstream: bool,
    /// True if an unknown member is an error; else it may belong to a newer Koordinator.
    pub is_strict: bool,
    /// First version of Koordinator with the key; `None` if not recorded.
    pub since: Option<&'static str>,
}

/// QoS class with its own members.
#[derive(Debug)]
pub struct Class {
    /// Name of the JSON member.
    pub member: &'static str,
    /// Name of the Go field.
    pub go: &'static str,
}

/// A member that has a value.
#[derive(Debug)]
pub struct MemberRow {
    /// Path of JSON member names, such as `memoryQOS.priority`. `[]` follows the name of a list, `{}` the name of a
    /// map.
    pub member: &'static str,
    /// Path of Go fields in Koordinator's code.
    pub go: &'static str,
    /// Type of the values that it accepts.
    pub kind: ValueKind,
    /// Unit of a number; `None` for other types.
    pub unit: Unit,
    /// Requirements for a value, in the order of the checks. An absent value is not checked.
    pub rules: &'static [Rule],
    /// Recommendations for a value: a violation is a warning.
    pub advice: &'static [Rule],
    /// Known words; other words cause a warning. Empty if every string is accepted.
    pub words: &'static [&'static str],
    /// Defaults: none, one value, or one for each of the first four QoS classes.
    pub default: &'static [&'static str],
    /// First version of Koordinator with the member; `None` if not recorded.
    pub since: Option<&'static str>,
    /// Effect of the member, for schemas and reference pages.
    pub about: &'static str,
}

/// Types of values that a member accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false` in JSON.
    Bool,
    /// A whole number of 64 bits, without fraction or exponent.
    Int64,
    /// A whole number of 32 bits, without fraction or exponent.
    Int32,
    /// A number with or without fraction.
    Number,
    /// A JSON string, possibly empty.
    Text,
    /// A string with a duration, such as `1h30m`.
    Duration,
    /// A Kubernetes quantity, as a string or as a number.
    Quantity,
    /// A whole number of 32 bits, which is a percentage, or a string with a quantity.
    PercentOrQuantity,
    /// A JSON object with any members.
    Object,
    /// Any JSON value, kept as text.
    Any,
}

/// Units of numbers, for messages and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No unit, or the value is not a number.
    None,
    /// Percent: hundredths of the whole.
    Percent,
    /// Permille: thousandths of the whole.
    Permill,
    /// Permyriad: ten-thousandths of the whole.
    Permyriad,
    /// A ratio; 1 is the whole.
    Ratio,
    /// Nanoseconds, as a whole number.
    Nanoseconds,
    /// Microseconds, as a whole number.
    Microseconds,
    /// Seconds, as a whole number.
    Seconds,
    /// Minutes, as a whole number.
    Minutes,
    /// Bytes, without a unit prefix.
    Bytes,
    /// Bytes per second, without a prefix.
    BytesPerSecond,
    /// Disk operations (reads or writes) per second.
    PerSecond,
    /// Priority of a pod, as in `spec.priority`.
    Priority,
    /// 0 is off, 1 is on.
    OffOn,
}

/// Requirements for a value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// At least this number (inclusive).
    Min(i64),
    /// At most this number (inclusive).
    Max(i64),
    /// More than this number (exclusive).
    Above(i64),
    /// Between the first and the second number, both in hundredths, inclusive.
    Hundredths(i64, i64),
    /// More than the member with this name in the same object.
    AboveMember(&'static str),
    /// Less than the member with this name in the same object.
    BelowMember(&'static str),
    /// A string that is not empty.
    NotEmpty,
}

/// Percentages from 0 to 100.
const PERCENT: &[Rule] = &[Rule::Min(0), Rule::Max(100)];
/// Percentages that may exceed 100.
const POSITIVE: &[Rule] = &[Rule::Min(0)];
const COUNT: &[Rule] = &[Rule::Min(1)];
/// The numbers 0 and 1.
const OFF_ON: &[Rule] = &[Rule::Min(0), Rule::Max(1)];

/// Template for members without rules.
const ANY: MemberRow = MemberRow {
    member: "",
    go: "",
    kind: ValueKind::Any,
    unit: Unit::None,
    rules: &[],
    advice: &[],
    words: &[],
    default: &[],
    since: None,
    about: "",
};
const PERCENTAGE: MemberRow = MemberRow {
    kind: ValueKind::Int64,
    unit: Unit::Percent,
    rules: PERCENT,
    ..ANY
};
const SWITCH: MemberRow = MemberRow {
    kind: ValueKind::Bool,
    default: &["false"],
    ..ANY
};
/// Template for strings with known words.
const WORD: MemberRow = MemberRow {
    kind: ValueKind::Text,
    ..ANY
};

impl Key {
    /// Returns the key with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.into_iter().find(|key| key.name == name)
    }

    /// All members with their QoS class, if they have one, in table order.
    pub fn rows(&'static self) -> impl Iterator<Item = (Option<&'static Class>, &'static MemberRow)> {
        let common = self.fields.iter().map(|field| (None, field));
        let classes = self.classes.iter();
        let of_classes =
            classes.flat_map(|class| self.class_fields.iter().map(move |field| (Some(class), field)));
        common.chain(of_classes)
    }
}

impl MemberRow {
    /// Default of the member in a QoS class, if it has one; `None` if there is no default.
    pub fn default_in(&self, class: Option<&Class>) -> Option<&'static str> {
        match (self.default, class) {
            ([only], _) => Some(only),
            (by_class, Some(class)) => {
                let place = classes::CLASSES
                    .iter()
                    .position(|other| other.member == class.member);
                by_class.get(place?).copied()
            }
            (_, None) => None,
        }
    }

    /// Name of the Go field without the enclosing fields.
    pub fn go_name(&self) -> &'static str {
        self.go.rsplit('.').next().unwrap_or_default()
    }

    /// Path of the member with this name in the same object.
    pub fn sibling(&self, name: &str) -> String {
        match self.member.rsplit_once('.') {
            Some((parent, _)) => format!("{parent}.{name}"),
            None => name.to_owned(),
        }
    }
}

impl Unit {
    /// Unit in words; empty if there is none.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Percent => "percent",
            Self::Permill => "permill",
            Self::Permyriad => "ten-thousandths",
            Self::Ratio => "ratio",
            Self::Nanoseconds => "nanoseconds",
            Self::Microseconds => "microseconds",
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes per second",
            Self::PerSecond => "operations per second",
            Self::Priority => "priority",
            Self::OffOn => "0 is off, 1 is on",
        }
    }
}

#[cfg(test)]
mod tests;
