//! Annotations that no Pod may have: the one by which the scheduler knows the pods that stand for Reservations.
//!
//! Such pods are in the memory of the scheduler alone. One that is stored would be taken for a Reservation.

use std::collections::BTreeMap;

use headroom_domain::{
    field::{Error, Errors, Path},
    names,
};

/// What is wrong with the annotations of a Pod; their values do not matter.
pub fn check<V>(annotations: &BTreeMap<String, V>) -> Errors {
    if !annotations.contains_key(names::RESERVE_POD) {
        return Errors::default();
    }
    let path = Path::new("annotations").child(names::RESERVE_POD);
    Error::forbidden(&path, "cannot set in annotations").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_refused_whatever_its_value() {
        for value in ["", "true", "false"] {
            let annotations = BTreeMap::from([(names::RESERVE_POD.to_owned(), value)]);
            assert_eq!(
                check(&annotations).to_string(),
                "annotations.scheduling.koordinator.sh/reserve-pod: Forbidden: cannot set in annotations"
            );
        }
        let other = BTreeMap::from([("reserve-pod".to_owned(), "")]);
        assert!(check(&other).is_empty());
    }
}
