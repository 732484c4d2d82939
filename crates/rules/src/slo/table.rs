//! The keys of the ConfigMap and their members, declared once: the parser, the checks, the texts of errors, schemas and
//! reference pages follow from these rows.

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

/// A key of the ConfigMap.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Koordinator's word for it in an error.
    pub label: &'static str,
    /// The type of its document in Koordinator's code, by which errors call it.
    pub go_type: &'static str,
    /// The member with what holds for all nodes; `None` where the members stand in the document itself.
    pub cluster: Option<&'static str>,
    /// The field of that in Koordinator's code.
    pub go_cluster: &'static str,
    /// The member with the entries for some nodes.
    pub entries: &'static str,
    /// The field of that in Koordinator's code.
    pub go_entries: &'static str,
    /// The type of an entry in Koordinator's code.
    pub go_entry_type: &'static str,
    /// The type of what holds for nodes, in an entry and for all nodes, in Koordinator's code.
    pub go_strategy: &'static str,
    /// The members, without those of classes.
    pub fields: &'static [MemberRow],
    /// The classes of service that have members of their own.
    pub classes: &'static [Class],
    /// The members of each class.
    pub class_fields: &'static [MemberRow],
    /// Whether Koordinator checks the key before it is stored.
    pub is_checked_upstream: bool,
    /// Whether an unknown member is an error; else it may be one of a newer Koordinator.
    pub is_strict: bool,
    /// The first version of Koordinator that has the key; `None` if that is not recorded.
    pub since: Option<&'static str>,
}

/// A class of service with members of its own.
#[derive(Debug)]
pub struct Class {
    /// The JSON member.
    pub member: &'static str,
    /// The field in Koordinator's code.
    pub go: &'static str,
}

/// A member that has a value.
#[derive(Debug)]
pub struct MemberRow {
    /// Its path of JSON members, such as `memoryQOS.priority`. Behind a list is `[]`, behind a map of any names `{}`.
    pub member: &'static str,
    /// The path in Koordinator's code.
    pub go: &'static str,
    /// What values it takes.
    pub kind: ValueKind,
    /// What a number counts.
    pub unit: Unit,
    /// What a value must be, in the order in which it is checked. An absent one is not checked.
    pub rules: &'static [Rule],
    /// What a value should be: others draw a warning.
    pub advice: &'static [Rule],
    /// The words that are known; others draw a warning. Empty if any text will do.
    pub words: &'static [&'static str],
    /// What holds without the member: nothing, a value, or one for each of the first four classes.
    pub default: &'static [&'static str],
    /// The first version of Koordinator that has the member; `None` if that is not recorded.
    pub since: Option<&'static str>,
    /// What it does.
    pub about: &'static str,
}

/// What values a member takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A whole number of 64 bits, without fraction or exponent.
    Int64,
    /// A whole number of 32 bits, without fraction or exponent.
    Int32,
    /// Any number.
    Number,
    /// A text.
    Text,
    /// A text such as `1h30m`.
    Duration,
    /// A quantity of Kubernetes, as a text or as a number.
    Quantity,
    /// A whole number of 32 bits, which is a percentage, or a text with a quantity.
    PercentOrQuantity,
    /// An object of any members.
    Object,
    /// Anything.
    Any,
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// It counts nothing, or the value is no number.
    None,
    /// Hundredths.
    Percent,
    /// Thousandths.
    Permill,
    /// Ten-thousandths.
    Permyriad,
    /// A factor, 1 is the whole.
    Ratio,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Operations per second.
    PerSecond,
    /// The priority of a pod.
    Priority,
    /// 0 is off, 1 is on.
    OffOn,
}

/// What a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// At least that.
    Min(i64),
    /// At most that.
    Max(i64),
    /// More than that.
    Above(i64),
    /// From the first to the second, in hundredths.
    Hundredths(i64, i64),
    /// More than the member of that name beside it.
    AboveMember(&'static str),
    /// Less than the member of that name beside it.
    BelowMember(&'static str),
    /// A text that is not empty.
    NotEmpty,
}

/// Percent of a whole.
const PERCENT: &[Rule] = &[Rule::Min(0), Rule::Max(100)];
/// Percent that may be more than the whole.
const POSITIVE: &[Rule] = &[Rule::Min(0)];
/// At least one.
const COUNT: &[Rule] = &[Rule::Min(1)];
/// 0 or 1.
const OFF_ON: &[Rule] = &[Rule::Min(0), Rule::Max(1)];

/// A member without rules, to declare others from.
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
/// A whole percentage.
const PERCENTAGE: MemberRow = MemberRow {
    kind: ValueKind::Int64,
    unit: Unit::Percent,
    rules: PERCENT,
    ..ANY
};
/// A switch.
const SWITCH: MemberRow = MemberRow {
    kind: ValueKind::Bool,
    default: &["false"],
    ..ANY
};
/// A word.
const WORD: MemberRow = MemberRow {
    kind: ValueKind::Text,
    ..ANY
};

impl Key {
    /// The key of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.into_iter().find(|key| key.name == name)
    }

    /// Every member, with its class if it belongs to one, in the order of the table.
    pub fn rows(&'static self) -> impl Iterator<Item = (Option<&'static Class>, &'static MemberRow)> {
        let common = self.fields.iter().map(|field| (None, field));
        let classes = self.classes.iter();
        let of_classes =
            classes.flat_map(|class| self.class_fields.iter().map(move |field| (Some(class), field)));
        common.chain(of_classes)
    }
}

impl MemberRow {
    /// What holds without the member, in a class if it belongs to one; `None` if nothing does.
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

    /// The name of the field in Koordinator's code, without what it is in.
    pub fn go_name(&self) -> &'static str {
        self.go.rsplit('.').next().unwrap_or_default()
    }

    /// The path of the member of that name beside this one.
    pub fn sibling(&self, name: &str) -> String {
        match self.member.rsplit_once('.') {
            Some((parent, _)) => format!("{parent}.{name}"),
            None => name.to_owned(),
        }
    }
}

impl Unit {
    /// The unit in words; empty for none.
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
