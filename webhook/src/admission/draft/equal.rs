//! Compares JSON text with a parsed value, without parsing the text into a value.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum number of members of a compared object; one bit records each member found.
const MOST_MEMBERS: usize = 32;

/// True if `text` is `value`; false if it cannot be read. False is no proof for objects with many members:
/// [`is_comparable`].
pub(super) fn is_equal(text: &str, value: &Value) -> bool {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let is_equal = Same(value).deserialize(&mut deserializer);
    is_equal.unwrap_or_default() && deserializer.end().is_ok()
}

/// True if no object in `value` has too many members to be compared.
pub(super) fn is_comparable(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().all(is_comparable),
        Value::Object(members) => members.len() <= MOST_MEMBERS && members.values().all(is_comparable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Reads a value and compares it with this one.
struct Same<'v>(&'v Value);

/// Reads the name of a member and finds its position among these.
struct Position<'v>(&'v Map<String, Value>);

impl<'de> DeserializeSeed<'de> for Same<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Same<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(self.0.is_null())
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<bool, E> {
        Ok(self.0.as_bool() == Some(is))
    }

    fn visit_u64<E: Error>(self, is: u64) -> Result<bool, E> {
        Ok(*self.0 == is)
    }

    fn visit_i64<E: Error>(self, is: i64) -> Result<bool, E> {
        Ok(*self.0 == is)
    }

    fn visit_f64<E: Error>(self, is: f64) -> Result<bool, E> {
        // A whole number is another value than a decimal of the same amount.
        Ok(self.0.is_f64() && *self.0 == is)
    }

    fn visit_str<E: Error>(self, is: &str) -> Result<bool, E> {
        Ok(self.0.as_str() == Some(is))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        let Some(all) = self.0.as_array() else {
            while elements.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(false);
        };
        // The elements after a different one cannot change the result, so they are skipped.
        for value in all {
            if elements.next_element_seed(Same(value))? != Some(true) {
                return Ok(false);
            }
        }
        Ok(elements.next_element::<IgnoredAny>()?.is_none())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let none = Map::new();
        let all = self.0.as_object();
        let (mut is_equal, all) = (all.is_some(), all.unwrap_or(&none));
        // One bit for each member that was there with its value; where a name repeats, the last one counts.
        let mut there = 0_u64;
        while let Some(found) = members.next_key_seed(Position(all))? {
            let Some((at, value)) = found else {
                members.next_value::<IgnoredAny>()?;
                is_equal = false;
                continue;
            };
            let bit = 1_u64.checked_shl(at).unwrap_or_default();
            if members.next_value_seed(Same(value))? {
                there |= bit;
            } else {
                there &= !bit;
            }
        }
        Ok(is_equal && there.count_ones() as usize == all.len())
    }
}

impl<'de, 'v> DeserializeSeed<'de> for Position<'v> {
    type Value = Option<(u32, &'v Value)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'v> Visitor<'_> for Position<'v> {
    type Value = Option<(u32, &'v Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let mut members = (0..).zip(self.0);
        Ok(members.find_map(|(at, (own, value))| (own == name).then_some((at, value))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(r#"{"a":1,"a":2}"#, json!({"a": 2}), true)]
    #[case(r#"{"a":2,"a":1}"#, json!({"a": 2}), false)]
    #[case(r#"{"a":2,"a":2}"#, json!({"a": 2, "b": 3}), false)]
    #[case(r#"{"\u0061":"\n"}"#, json!({"a": "\n"}), true)]
    #[case(r#"{"a":1,"b":2}"#, json!({"a": 1}), false)]
    #[case("[1,2]", json!([1]), false)]
    #[case("[1]", json!([1, 2]), false)]
    #[case("1.0", json!(1), false)]
    #[case("-0", json!(0), false)]
    #[case("18446744073709551616", json!(18_446_744_073_709_551_616.0), true)]
    #[case("{}", json!([]), false)]
    #[case("null", json!({}), false)]
    fn text_is_compared_with_a_value(#[case] text: &str, #[case] value: Value, #[case] expected: bool) {
        assert_eq!(is_equal(text, &value), expected);
        assert_eq!(serde_json::from_str::<Value>(text).unwrap() == value, expected);
    }

    #[test]
    fn what_cannot_be_read_is_no_value() {
        for (text, value) in [
            ("1e999", json!(f64::MAX)),
            (r#"["\ud800"]"#, json!(["\u{fffd}"])),
            ("[1", json!([1])),
            ("1 1", json!(1)),
        ] {
            assert!(!is_equal(text, &value), "{text}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2..3).prop_map(Value::from),
            prop::sample::select(vec![0.0, 1.0, -0.5]).prop_map(Value::from),
            "[ab\"\\\\\n]{0,2}".prop_map(Value::from),
        ];
        scalar.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::btree_map("[ab]{0,2}", inner.clone(), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
                proptest::collection::vec(inner, 0..3).prop_map(Value::from),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_the_value_that_it_reads_as(is in any_value(), other in any_value()) {
            prop_assert!(is_equal(&is.to_string(), &is));
            prop_assert_eq!(is_equal(&is.to_string(), &other), is == other);
            prop_assert!(is_comparable(&is));
        }
    }
}
