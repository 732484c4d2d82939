//! [`Hashed`]: a JSON value of any type, of which only a hash is kept.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a value with its types and the order of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hashed(pub(super) [u8; 32]);

/// Adds the value that is read to a hash.
struct HashInto<'h>(&'h mut Sha256);

impl<'de> Deserialize<'de> for Hashed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut hash = Sha256::new();
        HashInto(&mut hash).deserialize(deserializer)?;
        Ok(Self(hash.finalize().into()))
    }
}

impl<'de> DeserializeSeed<'de> for HashInto<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for HashInto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.0.update([b'b', u8::from(value)]);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.0.update([b'i']);
        self.0.update(value.to_be_bytes());
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.0.update([b'u']);
        self.0.update(value.to_be_bytes());
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.0.update([b'n']);
        self.0.update(value.to_bits().to_be_bytes());
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.0.update([b's']);
        self.0.update(value.len().to_be_bytes());
        self.0.update(value);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.0.update([b'0']);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.0.update([b'[']);
        while members.next_element_seed(HashInto(self.0))?.is_some() {}
        self.0.update([b']']);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.0.update([b'{']);
        while members.next_key_seed(HashInto(self.0))?.is_some() {
            members.next_value_seed(HashInto(self.0))?;
        }
        self.0.update([b'}']);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hashed(value: serde_json::Value) -> Hashed {
        let from_text = serde_json::from_str(&value.to_string()).unwrap();
        assert_eq!(serde_json::from_value::<Hashed>(value).unwrap(), from_text);
        from_text
    }

    #[test]
    fn values_that_differ_have_different_hashes() {
        let values = [
            json!(null),
            json!(1),
            json!(-1),
            json!("1"),
            json!(true),
            json!([]),
            json!({}),
            json!(["a", "b"]),
            json!(["ab"]),
            json!([["a"], "b"]),
            json!({"a": "b"}),
            json!({"a": {"b": null}}),
            json!({"a": ["b"]}),
        ];
        for (at, value) in values.iter().enumerate() {
            assert_eq!(hashed(value.clone()), hashed(value.clone()));
            for other in &values[at + 1..] {
                assert_ne!(hashed(value.clone()), hashed(other.clone()), "{value} {other}");
            }
        }
    }
}
