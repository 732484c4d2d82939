//! The BTF encoding: header, type records, strings. Every read is checked; a damaged file yields a [`TypesError`].
//!
//! A later kernel may have kinds of types that this reader does not know. Newer files describe the size of each kind
//! (`layout`), so that unknown ones are skipped. Without that description the types behind the first unknown kind
//! cannot be found: the types before it count, and a search that does not end among them fails.

pub(super) const MAGIC: u16 = 0xeb9f;
const KIND_INT: u32 = 1;
const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
pub(super) const KIND_TYPEDEF: u32 = 8;
const KIND_VOLATILE: u32 = 9;
pub(super) const KIND_CONST: u32 = 10;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_FLOAT: u32 = 16;
const KIND_TYPE_TAG: u32 = 18;
const KIND_ENUM64: u32 = 19;

/// Length of a header with the offset and the length of the layout section.
const HEADER_WITH_LAYOUT: usize = 32;
/// Size in bytes of the description of a kind.
const LAYOUT: usize = 4;

/// Limit on nesting. Anonymous members and typedefs nest a handful deep; more is a loop in a damaged file.
const MAX_DEPTH: u32 = 32;

/// A defect of the file and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypesError {
    pub(super) what: &'static str,
    pub(super) offset: usize,
}

/// A member of a structure or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) ty: u32,
    pub(super) bit_offset: u32,
    pub(super) is_bit_field: bool,
}

/// The fixed part of a type record.
#[derive(Clone, Copy)]
struct TypeRecord {
    /// Offset of the record's variable part in the file.
    body: usize,
    name: usize,
    kind: u32,
    flag: bool,
    count: usize,
    /// A size or a type, depending on the kind.
    size_or_type: u32,
}

/// A BTF file and the offset of each of its types.
pub(super) struct Types {
    bytes: Vec<u8>,
    strings: usize,
    /// Offsets of type 1, 2, ..: type 0 is `void` and has no record.
    starts: Vec<u32>,
    /// The type at which the index ends, if its kind is not known; the types from there on cannot be found.
    end_of_known: Option<TypesError>,
}

impl std::fmt::Debug for Types {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Types")
            .field("bytes", &self.bytes.len())
            .field("types", &self.starts.len())
            .finish_non_exhaustive()
    }
}

impl Types {
    /// Records the offsets of all types in one pass.
    pub(super) fn index(bytes: Vec<u8>) -> Result<Self, TypesError> {
        let magic = u32_at(&bytes, 0)?;
        if magic & 0xffff != u32::from(MAGIC) {
            return Err(TypesError {
                what: "no little-endian BTF header",
                offset: 0,
            });
        }
        let header = usize_at(&bytes, 4)?;
        let (type_offset, type_length) = (usize_at(&bytes, 8)?, usize_at(&bytes, 12)?);
        let strings = header.saturating_add(usize_at(&bytes, 16)?);
        let end = header.saturating_add(type_offset).saturating_add(type_length);
        if end > bytes.len() || strings.saturating_add(usize_at(&bytes, 20)?) > bytes.len() {
            return Err(TypesError {
                what: "sections beyond the end of the file",
                offset: 8,
            });
        }

        let mut types = Self {
            bytes,
            strings,
            starts: Vec::new(),
            end_of_known: None,
        };
        let layout = layout(&types.bytes, header)?;
        let mut at = header.saturating_add(type_offset);
        while at < end {
            let start = u32::try_from(at).map_err(|_over| TypesError {
                what: "file over 4 GiB",
                offset: at,
            })?;
            let record = types.record_at(at)?;
            let Some(length) = record.body_length(&types.bytes, layout)? else {
                types.end_of_known = Some(TypesError {
                    what: "type of an unknown kind",
                    offset: at,
                });
                break;
            };
            types.starts.push(start);
            at = record.body.saturating_add(length);
        }
        types.starts.shrink_to_fit();
        Ok(types)
    }

    /// The first structure of this name that has members.
    pub(super) fn structure(&self, name: &str) -> Result<Option<u32>, TypesError> {
        self.find(name, |record| record.kind == KIND_STRUCT && record.count > 0)
    }

    pub(super) fn typedef(&self, name: &str) -> Result<Option<u32>, TypesError> {
        self.find(name, |record| record.kind == KIND_TYPEDEF)
    }

    /// A member by its path (`a` or `a.b`), looked up through anonymous members, with its offset from the start of
    /// `id`.
    pub(super) fn member(&self, id: u32, path: &str) -> Result<Option<Member>, TypesError> {
        let (mut structure, mut offset) = (id, 0_u32);
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let Some(member) = self.member_within(structure, name, MAX_DEPTH)? else {
                return Ok(None);
            };
            offset = offset.saturating_add(member.bit_offset);
            if names.peek().is_none() {
                return Ok(Some(Member {
                    bit_offset: offset,
                    ..member
                }));
            }
            structure = self.stripped(member.ty)?;
            if structure == 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn member_within(&self, id: u32, name: &str, depth: u32) -> Result<Option<Member>, TypesError> {
        let record = self.record(id)?;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(TypesError {
                what: "structures nested without end",
                offset: record.body,
            });
        };
        if !matches!(record.kind, KIND_STRUCT | KIND_UNION) {
            return Ok(None);
        }
        for index in 0..record.count {
            let at = record.body + 12 * index;
            let (name_at, ty, place) = (
                usize_at(&self.bytes, at)?,
                u32_at(&self.bytes, at + 4)?,
                u32_at(&self.bytes, at + 8)?,
            );
            // With the record's flag, the upper byte holds the width of a bit field.
            let (bit_offset, bits) = if record.flag {
                (place & 0x00ff_ffff, place >> 24)
            } else {
                (place, 0)
            };
            if self.is_named(name_at, name) {
                return Ok(Some(Member {
                    ty,
                    bit_offset,
                    is_bit_field: bits != 0,
                }));
            }
            if self.is_named(name_at, "")
                && let Some(inner) = self.member_within(self.stripped(ty)?, name, depth)?
            {
                return Ok(Some(Member {
                    bit_offset: bit_offset.saturating_add(inner.bit_offset),
                    ..inner
                }));
            }
        }
        Ok(None)
    }

    /// Size in bytes of an integer type, resolved through typedefs and qualifiers; `None` for another kind.
    pub(super) fn integer_width(&self, ty: u32) -> Result<Option<u32>, TypesError> {
        let ty = self.stripped(ty)?;
        if ty == 0 {
            return Ok(None);
        }
        let record = self.record(ty)?;
        Ok((record.kind == KIND_INT).then_some(record.size_or_type))
    }

    /// Type that a parameter points to, of the function type that `typedef` points to; `None` for other types.
    pub(super) fn pointee_of_parameter(&self, typedef: u32, index: usize) -> Result<Option<u32>, TypesError> {
        let Some(prototype) = self.pointee(typedef)? else {
            return Ok(None);
        };
        let record = self.record(prototype)?;
        if record.kind != KIND_FUNC_PROTO || index >= record.count {
            return Ok(None);
        }
        self.pointee(u32_at(&self.bytes, record.body + 8 * index + 4)?)
    }

    /// Type that a pointer points to, both resolved through typedefs and qualifiers; `None` for `void *` and for types that
    /// are not pointers.
    fn pointee(&self, ty: u32) -> Result<Option<u32>, TypesError> {
        let ty = self.stripped(ty)?;
        if ty == 0 {
            return Ok(None);
        }
        let record = self.record(ty)?;
        if record.kind != KIND_PTR {
            return Ok(None);
        }
        let target = self.stripped(record.size_or_type)?;
        Ok((target != 0).then_some(target))
    }

    /// Resolves typedefs, qualifiers and tags.
    fn stripped(&self, mut ty: u32) -> Result<u32, TypesError> {
        for _ in 0..MAX_DEPTH {
            if ty == 0 {
                return Ok(0);
            }
            let record = self.record(ty)?;
            match record.kind {
                KIND_TYPEDEF | KIND_VOLATILE | KIND_CONST | KIND_RESTRICT | KIND_TYPE_TAG => {
                    ty = record.size_or_type;
                }
                _ => return Ok(ty),
            }
        }
        Err(TypesError {
            what: "typedefs without end",
            offset: self.record(ty)?.body,
        })
    }

    fn find(&self, name: &str, is_wanted: impl Fn(&TypeRecord) -> bool) -> Result<Option<u32>, TypesError> {
        for (index, start) in self.starts.iter().enumerate() {
            let record = self.record_at(*start as usize)?;
            if is_wanted(&record) && self.is_named(record.name, name) {
                return Ok(u32::try_from(index + 1).ok());
            }
        }
        // It may be one of the types that cannot be found.
        self.end_of_known.map_or(Ok(None), Err)
    }

    fn record(&self, id: u32) -> Result<TypeRecord, TypesError> {
        let start = (id as usize)
            .checked_sub(1)
            .and_then(|index| self.starts.get(index));
        let start = start.ok_or_else(|| {
            self.end_of_known.unwrap_or(TypesError {
                what: "reference to a type that does not exist",
                offset: 0,
            })
        })?;
        self.record_at(*start as usize)
    }

    fn record_at(&self, at: usize) -> Result<TypeRecord, TypesError> {
        let (name, info) = (usize_at(&self.bytes, at)?, u32_at(&self.bytes, at + 4)?);
        // In older files the kind has 5 bits and the count 16, and the bits above them are zero.
        let kind = info >> 24 & 0x7f;
        if kind == 0 {
            return Err(TypesError {
                what: "type without a kind",
                offset: at,
            });
        }
        let count = (info & 0x00ff_ffff) as usize;
        let size_or_type = u32_at(&self.bytes, at + 8)?;
        Ok(TypeRecord {
            body: at + 12,
            name,
            kind,
            flag: info >> 31 == 1,
            count,
            size_or_type,
        })
    }

    /// Returns true if the string at this offset of the string section equals `name`.
    fn is_named(&self, offset: usize, name: &str) -> bool {
        let text = self
            .strings
            .checked_add(offset)
            .and_then(|start| self.bytes.get(start..));
        text.and_then(|text| text.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

impl TypeRecord {
    /// Size of the variable part in bytes, by the kernel's `Documentation/bpf/btf.rst`, and for later kinds by the file's
    /// own layout section. `None` if it is not known.
    fn body_length(&self, bytes: &[u8], layout: Option<Section>) -> Result<Option<usize>, TypesError> {
        let per_entry = match self.kind {
            KIND_INT | 14 | 17 => return Ok(Some(4)),
            3 => return Ok(Some(12)),
            KIND_STRUCT | KIND_UNION | 15 | KIND_ENUM64 => 12,
            KIND_ENUM | KIND_FUNC_PROTO => 8,
            KIND_PTR | 7..=KIND_RESTRICT | 12 | KIND_FLOAT | KIND_TYPE_TAG => 0,
            _ => return self.described_length(bytes, layout),
        };
        Ok(Some(self.count * per_entry))
    }

    /// The size of the variable part by the layout section; `None` if it does not describe the kind.
    fn described_length(&self, bytes: &[u8], layout: Option<Section>) -> Result<Option<usize>, TypesError> {
        let at = LAYOUT * self.kind as usize;
        let Some(section) = layout.filter(|section| at + LAYOUT <= section.length) else {
            return Ok(None);
        };
        let [part, entry, ..] = u32_at(bytes, section.start.saturating_add(at))?.to_le_bytes();
        Ok(Some(usize::from(part) + self.count * usize::from(entry)))
    }
}

/// A part of the file, in bytes.
#[derive(Clone, Copy)]
struct Section {
    start: usize,
    length: usize,
}

/// The layout section, which has 4 bytes for each kind, from kind 0 on; `None` if the file has none.
fn layout(bytes: &[u8], header: usize) -> Result<Option<Section>, TypesError> {
    if header < HEADER_WITH_LAYOUT {
        return Ok(None);
    }
    let section = Section {
        start: header.saturating_add(usize_at(bytes, 24)?),
        length: usize_at(bytes, 28)?,
    };
    if section.start.saturating_add(section.length) > bytes.len() {
        return Err(TypesError {
            what: "sections beyond the end of the file",
            offset: 24,
        });
    }
    Ok((section.length > 0).then_some(section))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, TypesError> {
    let word = at
        .checked_add(4)
        .and_then(|end| bytes.get(at..end))
        .and_then(|word| word.first_chunk::<4>());
    word.map(|word| u32::from_le_bytes(*word)).ok_or(TypesError {
        what: "end of file",
        offset: at,
    })
}

fn usize_at(bytes: &[u8], at: usize) -> Result<usize, TypesError> {
    Ok(u32_at(bytes, at)? as usize)
}
