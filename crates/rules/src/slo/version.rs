//! Checks of a version of the ConfigMap that do not depend on its documents: total length, and keys that lost their
//! text.

use super::{Data, table::KEYS};

/// Maximum length of all texts together, in bytes: Kubernetes' limit. The API server refuses longer ones before it
/// calls webhooks; for other callers this bounds memory.
pub const LONGEST: usize = 1 << 20;

/// Returns an error if the texts are too long.
pub fn too_long(data: &Data) -> Option<String> {
    let bytes: usize = data.values().map(String::len).sum();
    (bytes > LONGEST).then(|| format!("data: Too long: may not be more than {LONGEST} bytes"))
}

/// Warnings about keys that lost their text.
pub fn emptied(new: &Data, old: &Data) -> Vec<String> {
    let has_text = |data: &Data, name: &str| data.get(name).is_some_and(|text| !text.is_empty());
    let names = KEYS.iter().map(|key| key.name);
    let emptied = names.filter(|name| has_text(old, name) && !has_text(new, name));
    emptied
        .map(|name| format!("{name} was removed: defaults apply to all nodes"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(key: &str, text: &str) -> Data {
        Data::from([(key.to_owned(), text.to_owned())])
    }

    #[test]
    fn texts_are_too_long_together() {
        let mut version = data("a", &"x".repeat(LONGEST - 1));
        version.insert("b".to_owned(), "x".to_owned());
        assert_eq!(too_long(&version), None);
        version.insert("c".to_owned(), "x".to_owned());
        assert_eq!(
            too_long(&version).unwrap(),
            "data: Too long: may not be more than 1048576 bytes"
        );
    }

    #[test]
    fn a_known_key_without_text_counts_as_removed() {
        let old = data("system-config", "{}");
        for new in [Data::new(), data("system-config", "")] {
            assert_eq!(
                emptied(&new, &old),
                ["system-config was removed: defaults apply to all nodes"]
            );
        }
        for (new, old) in [
            (&old, &old),
            (&Data::new(), &data("other", "{}")),
            (&Data::new(), &data("system-config", "")),
        ] {
            assert_eq!(emptied(new, old), [""; 0]);
        }
    }
}
