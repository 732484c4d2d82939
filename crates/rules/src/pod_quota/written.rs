//! Reads the resource lists that annotations of quotas have, with Go's and Kubernetes' words for what they do not take.

use headroom_domain::{amounts::Amounts, quantity::Quantity};

use crate::slo::{
    decode::parse_quantity,
    json::{JsonKind, Tree, Value},
};

/// The most resources in a list. An annotation has 256 KiB at most, and a quota a dozen resources.
const MOST_RESOURCES: usize = 1_024;

/// The amounts of a text; none if it is empty or `null`. Of a resource that is there twice the last amount counts.
///
/// # Errors
/// What Koordinator's decoder says of it.
pub(super) fn amounts(text: &str) -> Result<Amounts, String> {
    if text.is_empty() {
        return Ok(Amounts::default());
    }
    let tree = Tree::parse(text).map_err(|error| error.to_string())?;
    let root = tree.root();
    if !root.is_object_or_null() {
        let kind = root.kind().go_name();
        return Err(format!(
            "json: cannot unmarshal {kind} into Go value of type v1.ResourceList"
        ));
    }
    let mut amounts = Amounts::default();
    for (place, (name, value)) in root.members().enumerate() {
        if place == MOST_RESOURCES {
            return Err(format!("more than {MOST_RESOURCES} resources"));
        }
        amounts.set(name, quantity(value)?);
    }
    Ok(amounts)
}

/// A text or a number is read as it is written; `null` is zero.
fn quantity(value: Value<'_>) -> Result<Quantity, &'static str> {
    if value.kind() == JsonKind::Null {
        return Ok(Quantity::ZERO);
    }
    match value.string() {
        Some(text) => parse_quantity(&text),
        None => parse_quantity(value.written()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Ok(""))]
    #[case("null", Ok(""))]
    #[case("{}", Ok(""))]
    #[case(
        r#"{"memory": "1Gi", "cpu": 4, "cpu": "1500m", "x": null}"#,
        Ok("cpu=1500m,memory=1Gi,x=0")
    )]
    #[case(r#"{"cpu""#, Err("unexpected end of JSON input"))]
    #[case(
        r#"{"cpu": "x"}"#,
        Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    )]
    #[case(
        "[]",
        Err("json: cannot unmarshal array into Go value of type v1.ResourceList")
    )]
    fn a_list_is_read_as_koordinator_reads_it(#[case] text: &str, #[case] expected: Result<&str, &str>) {
        let read = amounts(text).map(|amounts| amounts.to_string());
        assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn a_list_of_more_resources_than_anybody_has_is_refused() {
        let list = |count: usize| {
            let members: Vec<String> = (0..count).map(|index| format!("\"r{index}\": 1")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(amounts(&list(1_024)).is_ok());
        assert_eq!(amounts(&list(1_025)), Err("more than 1024 resources".to_owned()));
    }
}
