//! Quantities in JSON: read from a string or a number, written as the canonical string.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

use super::{Quantity, QuantityError};

/// Quantity in JSON, or the error of a string that is not one. The caller adds the name of the field.
pub(crate) struct WrittenQuantity(pub(crate) Result<Quantity, QuantityError>);

/// Serde visitor that reads like Kubernetes: surrounding spaces are ignored, `null` is zero.
///
/// A number with a fraction or an exponent becomes the shortest decimal of the same float, so `1e3` prints as `1k`
/// where Kubernetes prints `1e3`.
struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = WrittenQuantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<WrittenQuantity, E> {
        Ok(WrittenQuantity(text.trim().parse()))
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<WrittenQuantity, E> {
        Ok(WrittenQuantity(Ok(Quantity::from_whole(whole.into()))))
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<WrittenQuantity, E> {
        Ok(WrittenQuantity(Ok(Quantity::from_whole(whole.into()))))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<WrittenQuantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<WrittenQuantity, E> {
        Ok(WrittenQuantity(Ok(Quantity::ZERO)))
    }
}

impl<'de> Deserialize<'de> for WrittenQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenQuantity(quantity) = Deserialize::deserialize(deserializer)?;
        quantity.map_err(D::Error::custom)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
