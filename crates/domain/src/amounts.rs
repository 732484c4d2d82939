//! [`Amounts`]: amounts by resource name, as in a container's requests, with Kubernetes' sums and comparisons.

use std::{
    borrow::{Borrow, Cow},
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor},
};

use crate::{
    names,
    quantity::{Quantity, json::WrittenQuantity},
};

/// Common resource names, kept as static strings: they allocate no memory.
const USUAL_NAMES: [&str; 7] = [
    names::CPU,
    names::MEMORY,
    names::BATCH_CPU,
    names::BATCH_MEMORY,
    names::MID_CPU,
    names::MID_MEMORY,
    "ephemeral-storage",
];

/// Name of a resource; common ones borrow a static string.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ResourceName(Cow<'static, str>);

/// Resource name → amount, in bytewise order of the names. Two values are equal if all amounts are equal, in any
/// printed form.
///
/// The JSON form is an object of strings or numbers; `null` is empty, and the last of two equal keys wins. It is
/// written with sorted names and canonical quantities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<ResourceName, Quantity>);

impl Amounts {
    /// Returns true for a resource that Kubernetes or Koordinator defines for most pods.
    pub fn is_usual(name: &str) -> bool {
        USUAL_NAMES.contains(&name)
    }

    /// Amount of a resource; `None` if the resource is not named, which differs from zero.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// Returns true if the resource is named, even with zero.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets the amount of a resource and replaces an earlier one.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.0.insert(ResourceName::from(name), amount);
    }

    /// Removes a resource and returns its amount; `None` if it was not named.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.0.remove(name)
    }

    /// Returns true if no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over all resources and their amounts in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (&*name.0, amount))
    }

    /// Copy with only the resources in `names`; names without an amount are left out.
    pub fn only(&self, names: &[&str]) -> Self {
        self.filtered(|name, _| names.contains(&name))
    }

    /// Copy with only the resources for which `is_kept` returns true.
    pub fn filtered(&self, is_kept: impl Fn(&str, &Quantity) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, amount)| is_kept(&name.0, amount));
        Self(kept.map(|(name, amount)| (name.clone(), *amount)).collect())
    }

    /// Sums of all resources named on either side, at most ±10²⁹. A sum prints in the family of our amount, or of the
    /// other one if ours is zero or absent.
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, Quantity::saturating_add)
    }

    /// Adds the amounts of `other` in place, with the rules of [`Self::plus`]; cheaper for sums over many.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(&*name.0) {
                Some(sum) => *sum = sum.saturating_add(amount),
                None => drop(self.0.insert(name.clone(), *amount)),
            }
        }
    }

    /// Larger amount of each resource named on either side; our amount if both are equal.
    pub fn max(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| if theirs > ours { *theirs } else { *ours })
    }

    fn combine(&self, other: &Self, combine: impl Fn(&Quantity, &Quantity) -> Quantity) -> Self {
        let names: BTreeSet<&ResourceName> = self.0.keys().chain(other.0.keys()).collect();
        let amount = |name: &str| match (self.get(name), other.get(name)) {
            (Some(ours), Some(theirs)) => Some(combine(ours, theirs)),
            (ours, theirs) => ours.or(theirs).copied(),
        };
        let combined = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), amount(&name.0)?)));
        Self(combined.collect())
    }

    /// Returns true if no amount in `smaller` exceeds ours; a resource that we do not name counts as zero.
    pub fn covers(&self, smaller: &Self) -> bool {
        smaller
            .iter()
            .all(|(name, amount)| *amount <= self.get(name).copied().unwrap_or(Quantity::ZERO))
    }

    /// Returns true if no amount exceeds its limit; a resource without a limit is unlimited.
    pub fn fits(&self, limits: &Self) -> bool {
        self.iter()
            .all(|(name, amount)| limits.get(name).is_none_or(|limit| amount <= limit))
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        let usual = USUAL_NAMES.into_iter().find(|usual| *usual == name);
        Self(usual.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed))
    }
}

impl Borrow<str> for ResourceName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'n> FromIterator<(&'n str, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (&'n str, Quantity)>>(amounts: I) -> Self {
        let amounts = amounts.into_iter();
        Self(amounts.map(|(name, amount)| (name.into(), amount)).collect())
    }
}

/// Serde visitor for a resource name.
struct NameText;

impl Visitor<'_> for NameText {
    type Value = ResourceName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a resource")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ResourceName, E> {
        Ok(name.into())
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameText)
    }
}

impl fmt::Display for Amounts {
    /// `cpu=2,memory=4Gi`: canonical quantities in order of the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, amount)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{name}={amount}")?;
        }
        Ok(())
    }
}

/// Serde visitor for amounts; an error names the resource.
struct NamedQuantities;

impl<'de> Visitor<'de> for NamedQuantities {
    type Value = Amounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of quantities")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Amounts, M::Error> {
        let mut amounts = Amounts::default();
        while let Some((name, WrittenQuantity(amount))) = members.next_entry::<ResourceName, _>()? {
            let amount = amount.map_err(|error| M::Error::custom(format_args!("{}: {error}", name.0)))?;
            amounts.0.insert(name, amount);
        }
        Ok(amounts)
    }

    fn visit_unit<E: Error>(self) -> Result<Amounts, E> {
        Ok(Amounts::default())
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamedQuantities)
    }
}

impl Serialize for Amounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(json: &str) -> Amounts {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn sums_and_maxima_are_over_all_names_of_either() {
        let (left, right) = (
            amounts(r#"{"cpu":"1","memory":"1Gi","zero":"0"}"#),
            amounts(r#"{"memory":"500M","pods":3,"zero":"1Ki"}"#),
        );
        assert_eq!(
            left.plus(&right).to_string(),
            "cpu=1,memory=1573741824,pods=3,zero=1Ki"
        );
        assert_eq!(left.max(&right).to_string(), "cpu=1,memory=1Gi,pods=3,zero=1Ki");
        assert_eq!(
            right.plus(&left).to_string(),
            "cpu=1,memory=1573741824,pods=3,zero=1Ki"
        );
        assert_eq!(left.plus(&Amounts::default()), left);
        let mut sum = left.clone();
        sum.add(&right);
        assert_eq!(sum.to_string(), left.plus(&right).to_string());
    }

    #[test]
    fn an_equal_maximum_prints_as_ours() {
        let (left, right) = (amounts(r#"{"m":"1024Ki"}"#), amounts(r#"{"m":"1048576"}"#));
        assert_eq!(left.max(&right).to_string(), "m=1Mi");
        assert_eq!(right.max(&left).to_string(), "m=1048576");
    }

    #[test]
    fn a_sum_that_is_too_large_stays_at_the_largest_amount() {
        let large = amounts(r#"{"cpu":"9e28"}"#);
        assert_eq!(large.plus(&large), amounts(r#"{"cpu":"1e29"}"#));
    }

    #[test]
    fn absent_resources_cover_nothing_and_limit_nothing() {
        for (smaller, larger, is_covered, fits) in [
            ("{}", "{}", true, true),
            (r#"{"a":1}"#, r#"{"a":1}"#, true, true),
            (r#"{"a":2}"#, r#"{"a":1}"#, false, false),
            (r#"{"a":1}"#, "{}", false, true),
            (r#"{"a":0}"#, "{}", true, true),
            (r#"{"a":-1}"#, "{}", true, true),
            ("{}", r#"{"a":1}"#, true, true),
            (r#"{"a":1,"b":1}"#, r#"{"a":1}"#, false, true),
            (r#"{"a":"1m"}"#, r#"{"a":0}"#, false, false),
        ] {
            let (smaller, larger) = (amounts(smaller), amounts(larger));
            assert_eq!(larger.covers(&smaller), is_covered, "{smaller:?}, {larger:?}");
            assert_eq!(smaller.fits(&larger), fits, "{smaller:?}, {larger:?}");
        }
    }

    #[test]
    fn json_is_written_canonically_by_name() {
        let canonical = |json: &str| serde_json::to_string(&amounts(json)).unwrap();
        assert_eq!(
            canonical(r#"{"memory":"0.5Gi","a/b":40,"cpu":0.5,"cpu":"1500m"}"#),
            r#"{"a/b":"40","cpu":"1500m","memory":"512Mi"}"#
        );
        assert_eq!(canonical("{}"), "{}");
        assert_eq!(canonical("null"), "{}");
        assert_eq!(canonical(r#"{"cpu":null}"#), r#"{"cpu":"0"}"#);
    }

    #[test]
    fn an_amount_that_cannot_be_read_is_named() {
        for (json, reason) in [
            (
                r#"{"cpu":"two"}"#,
                r#"cpu: "two" is not a quantity at line 1 column 13"#,
            ),
            (
                r#"{"cpu":true}"#,
                "invalid type: boolean `true`, expected a quantity",
            ),
            ("[]", "invalid type: sequence, expected an object of quantities"),
            (
                r#""cpu""#,
                r#"invalid type: string "cpu", expected an object of quantities"#,
            ),
        ] {
            let error = serde_json::from_str::<Amounts>(json).unwrap_err().to_string();
            assert!(error.starts_with(reason), "{json}: {error}");
        }
    }

    #[test]
    fn amounts_are_equal_in_any_form() {
        assert_eq!(amounts(r#"{"a":"1000m"}"#), amounts(r#"{"a":"1"}"#));
        assert_ne!(amounts(r#"{"a":0}"#), Amounts::default());
    }

    #[test]
    fn names_can_be_picked_set_and_removed() {
        let mut all = amounts(r#"{"a":1,"b":2,"c":0}"#);
        assert_eq!(all.only(&["c", "a", "d"]).to_string(), "a=1,c=0");
        assert!(all.contains("c") && !all.contains("d"));
        assert_eq!(all.remove("b"), Some(Quantity::from_whole(2)));
        assert_eq!(all.remove("b"), None);
        all.set("a", Quantity::from_whole(3));
        assert_eq!(
            (all.get("a"), all.is_empty()),
            (Some(&Quantity::from_whole(3)), false)
        );
    }
}
