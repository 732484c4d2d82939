//! Annotations of pods that Koordinator's agent on the node reads, and ignores if it cannot read their value.

use std::collections::BTreeMap;

use headroom_domain::names;
use serde::de::IgnoredAny;

use crate::pod_types::shown;

/// Annotations of a pod; the value is `None` if it is `null`.
pub type Annotations = BTreeMap<String, Option<String>>;

/// Annotation that the agent reads.
struct AgentAnnotation {
    key: &'static str,
    /// Values that the agent accepts, for a warning.
    accepts: &'static str,
    is_readable: fn(&str) -> bool,
}

static ANNOTATIONS: [AgentAnnotation; 3] = [
    AgentAnnotation {
        key: names::OOM_SCORE_ADJ,
        accepts: "a whole number from -1000 to 1000",
        is_readable: |text| {
            let number: Result<i64, _> = text.parse();
            number.is_ok_and(|number| (-1_000..=1_000).contains(&number))
        },
    },
    AgentAnnotation {
        key: names::OOM_SCORE_ADJ_SPEC,
        accepts: "JSON",
        is_readable: |text| serde_json::from_str::<IgnoredAny>(text).is_ok(),
    },
    AgentAnnotation {
        key: names::EVICTION_PRIORITY,
        accepts: "a whole number of 32 bits",
        is_readable: |text| text.parse::<i32>().is_ok(),
    },
];

/// Returns a warning for each annotation with a value that the agent would ignore. A value that the stored pod has as
/// well causes none.
pub fn warnings(annotations: &Annotations, stored: Option<&Annotations>) -> Vec<String> {
    let of_key = |annotation: &AgentAnnotation| {
        let text = annotations.get(annotation.key)?.as_deref()?;
        let stored = stored.and_then(|stored| stored.get(annotation.key)?.as_deref());
        if stored == Some(text) || (annotation.is_readable)(text) {
            return None;
        }
        let AgentAnnotation { key, accepts, .. } = annotation;
        let value = shown(text);
        Some(format!(
            "metadata.annotations[{key}]: Koordinator's agent ignores {value:?}, which is not {accepts}"
        ))
    };
    ANNOTATIONS.iter().filter_map(of_key).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn one(key: &str, value: &str) -> Annotations {
        BTreeMap::from([(key.to_owned(), Some(value.to_owned()))])
    }

    #[rstest]
    #[case(names::OOM_SCORE_ADJ, &["-1000", "0", "1000", "+5"], &["1001", "-1001", "", " 1", "1.0", "high", "9223372036854775808"])]
    #[case(names::OOM_SCORE_ADJ_SPEC, &["{}", r#"{"main":-500}"#, "null"], &["", "{", "main=5", "{}{}"])]
    #[case(names::EVICTION_PRIORITY, &["2147483647", "-2147483648", "0"], &["2147483648", "-2147483649", "", "1.5", "low"])]
    fn a_value_that_the_agent_ignores_is_a_warning(
        #[case] key: &str,
        #[case] readable: &[&str],
        #[case] ignored: &[&str],
    ) {
        for text in readable {
            assert_eq!(warnings(&one(key, text), None), Vec::<String>::new(), "{text}");
        }
        for text in ignored {
            let annotations = one(key, text);
            let found = warnings(&annotations, None);
            assert_eq!(found.len(), 1, "{text}");
            assert!(
                found[0].starts_with(&format!("metadata.annotations[{key}]: ")),
                "{found:?}"
            );
            assert_eq!(
                warnings(&annotations, Some(&annotations)),
                Vec::<String>::new(),
                "it is stored"
            );
            assert_eq!(warnings(&annotations, Some(&one(key, "0"))).len(), 1, "it is new");
        }
    }

    #[test]
    fn other_annotations_and_long_values_are_bounded() {
        assert_eq!(warnings(&one("other", "x"), None), Vec::<String>::new());
        let long = warnings(&one(names::EVICTION_PRIORITY, &"x".repeat(100_000)), None);
        assert!(long[0].len() < 250, "{long:?}");
        let deep = warnings(&one(names::OOM_SCORE_ADJ_SPEC, &"[".repeat(100_000)), None);
        assert_eq!(deep.len(), 1);
    }
}
