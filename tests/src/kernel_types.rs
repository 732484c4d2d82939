//! [`KernelTypes`] is a falsified copy of the running kernel's BTF: a field is moved, or a name is changed.

use std::{fs, path::Path};

/// BTF of the running kernel.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const HEADER: usize = 24;
/// Kinds of types with more than twelve bytes, and the number of additional bytes: per member, or in total.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const MEMBER: usize = 12;

/// BTF in the machine's byte order.
#[derive(Debug, Clone)]
pub struct KernelTypes {
    bytes: Vec<u8>,
}

impl KernelTypes {
    pub fn read() -> Self {
        let bytes = fs::read(VMLINUX).expect("a kernel that describes its types");
        let types = Self { bytes };
        assert_eq!(types.word(4) as usize, HEADER, "a header as we know it");
        types
    }

    /// Moves a field of a structure to the offset of another one.
    pub fn put(&mut self, structure: &str, field: &str, at: &str) {
        let place = |name| {
            let found = self.members(structure);
            let member = found
                .into_iter()
                .find(|member| self.text(self.word(*member)) == name);
            member.unwrap_or_else(|| panic!("{structure} has no {name}")) + 8
        };
        let (to, from) = (place(field), place(at));
        self.bytes.copy_within(from..from + 4, to);
    }

    /// Renames all occurrences of a name to another name of the same length.
    pub fn rename(&mut self, name: &str, new: &str) {
        assert_eq!(name.len(), new.len());
        let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
        let mut found = self.bytes.windows(wanted.len());
        let at = found.position(|bytes| bytes == wanted).expect("the name") + 1;
        self.bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
    }

    /// Writes the BTF to a file.
    pub fn write(&self, path: &Path) {
        fs::write(path, &self.bytes).expect("write the types");
    }

    /// Positions of the members of a structure.
    fn members(&self, structure: &str) -> Vec<usize> {
        let (mut at, end) = (
            HEADER + self.word(8) as usize,
            HEADER + (self.word(8) + self.word(12)) as usize,
        );
        while at < end {
            let info = self.word(at + 4);
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            if kind == STRUCT && count > 0 && self.text(self.word(at)) == structure {
                return (0..count).map(|member| at + 12 + member * MEMBER).collect();
            }
            at += 12 + beyond(kind, count);
        }
        panic!("the kernel has no {structure}");
    }

    fn text(&self, offset: u32) -> &str {
        let start = HEADER + self.word(16) as usize + offset as usize;
        let length = self.bytes[start..].iter().position(|byte| *byte == 0);
        let text = &self.bytes[start..start + length.expect("an end")];
        std::str::from_utf8(text).expect("a name")
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }
}

/// Bytes after the first twelve of a type of this kind with `count` parts.
fn beyond(kind: u32, count: usize) -> usize {
    match kind {
        // BTF_KIND_INT, BTF_KIND_VAR, BTF_KIND_DECL_TAG.
        1 | 14 | 17 => 4,
        // BTF_KIND_ARRAY with its element and index types.
        3 => 12,
        STRUCT | UNION => count * MEMBER,
        // BTF_KIND_ENUM and the parameters of BTF_KIND_FUNC_PROTO.
        6 | 13 => count * 8,
        // BTF_KIND_DATASEC and BTF_KIND_ENUM64.
        15 | 19 => count * 12,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_type_follow_its_first_twelve_bytes() {
        assert_eq!(
            [1, 2, 3, 4, 6, 13, 15, 19].map(|kind| beyond(kind, 2)),
            [4, 0, 12, 24, 16, 16, 24, 24]
        );
    }
}
