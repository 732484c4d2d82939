//! [`SloPage`]: the example and the mistakes of docs/slo-configuration.md, which tests compare with the webhook's
//! answers.

use std::{collections::BTreeMap, fs, path::Path};

/// Texts of a ConfigMap by key.
pub type Data = BTreeMap<String, String>;

#[derive(Debug)]
pub struct SloPage {
    /// A version that is accepted.
    pub example: Data,
    /// Versions with one mistake each.
    pub mistakes: Vec<Mistake>,
}

/// A version with a mistake.
#[derive(Debug)]
pub struct Mistake {
    pub title: String,
    pub data: Data,
    /// Answer to the client: lines that start with `Warning: ` or `Error: `.
    pub answer: Vec<String>,
}

impl SloPage {
    pub fn load() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/slo-configuration.md");
        let text = fs::read_to_string(file).expect("the page");
        let (before, after) = text.split_once("## Ten mistakes").expect("the mistakes");
        let mistakes = after.split("\n### ").skip(1).map(|section| Mistake {
            title: section.lines().next().unwrap_or_default().to_owned(),
            data: data(section),
            answer: block(section, "text").lines().map(str::to_owned).collect(),
        });
        Self {
            example: data(before),
            mistakes: mistakes.collect(),
        }
    }
}

/// The ConfigMap's texts in the first YAML block.
fn data(section: &str) -> Data {
    serde_saphyr::from_str(block(section, "yaml")).expect("texts by key")
}

/// The first block of a language.
fn block<'s>(section: &'s str, language: &str) -> &'s str {
    let start = format!("```{language}\n");
    let (_, rest) = section.split_once(&start).expect("a block");
    let (block, _) = rest.split_once("\n```").expect("its end");
    block
}
