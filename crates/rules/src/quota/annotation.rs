//! Reads annotations of quotas: resource lists and lists of names, with the known errors of Go's decoder.

use headroom_domain::amounts::Amounts;

use crate::slo::json::Tree;

/// Kubernetes' message for an invalid quantity.
const NO_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Parses a resource list; `None` for an empty text and for `null`.
///
/// # Errors
/// The text is not a resource list; the error is the reason.
pub fn amounts(text: &str) -> Result<Option<Amounts>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let tree = Tree::parse(text).map_err(|error| error.to_string())?;
    let kind = tree.root().kind().go_name();
    if kind == "null" {
        return Ok(None);
    }
    if kind != "object" {
        return Err(format!(
            "json: cannot unmarshal {kind} into Go value of type v1.ResourceList"
        ));
    }
    let amounts = serde_json::from_str(text).map_err(|_wrong| NO_QUANTITY.to_owned())?;
    Ok(Some(amounts))
}

/// Parses a list of names; empty for an empty text and for `null`.
///
/// # Errors
/// The text is not a list of names; the error is the reason.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let tree = Tree::parse(text).map_err(|error| error.to_string())?;
    let kind = tree.root().kind().go_name();
    if kind != "null" && kind != "array" {
        return Err(format!(
            "json: cannot unmarshal {kind} into Go value of type []string"
        ));
    }
    let names: Option<Vec<Option<String>>> =
        serde_json::from_str(text).map_err(|_wrong| "an element is not a string".to_owned())?;
    let names = names.unwrap_or_default().into_iter();
    Ok(names.map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Ok(None))]
    #[case("null", Ok(None))]
    #[case("{}", Ok(Some("")))]
    #[case(r#"{"cpu":"1","cpu":2}"#, Ok(Some("cpu=2")))]
    #[case(
        "{cpu",
        Err("invalid character 'c' looking for beginning of object key string")
    )]
    #[case(r#"{"cpu":"abc"}"#, Err(NO_QUANTITY))]
    #[case(
        "[]",
        Err("json: cannot unmarshal array into Go value of type v1.ResourceList")
    )]
    fn a_resource_list_is_parsed_or_refused(#[case] text: &str, #[case] read: Result<Option<&str>, &str>) {
        let found = amounts(text).map(|amounts| amounts.map(|amounts| amounts.to_string()));
        assert_eq!(
            found,
            read.map(|text| text.map(str::to_owned)).map_err(str::to_owned)
        );
    }

    #[rstest]
    #[case("", Ok(vec![]))]
    #[case(r#"["a","a"]"#, Ok(vec!["a", "a"]))]
    #[case("dev,ml", Err("invalid character 'd' looking for beginning of value"))]
    #[case("{}", Err("json: cannot unmarshal object into Go value of type []string"))]
    #[case("[1]", Err("an element is not a string"))]
    fn names_are_parsed_or_refused(#[case] text: &str, #[case] read: Result<Vec<&str>, &str>) {
        let read = read.map(|names| names.into_iter().map(str::to_owned).collect());
        assert_eq!(names(text), read.map_err(str::to_owned));
    }

    #[test]
    fn deep_text_is_answered() {
        let deep = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
        assert!(names(&deep).is_err() && amounts(&deep).is_err());
    }
}
