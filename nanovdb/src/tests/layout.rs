//! Sizes and offsets against the numbers of the format.

use crate::ValueType;

/// Background, minimum, maximum, average, deviation and size of the root, bits of a value in a leaf,
/// stride of tables, value and size of an entry of the root; minimum, maximum, average, deviation, table
/// and size of upper nodes; of lower nodes; minimum, maximum, average, deviation, values and size of leaves.
/// From the tables for each type in PNanoVDB.h, version 32.8, but for bools and indices: there the offsets in
/// leaves are those of the structures in NanoVDB.h.
#[rustfmt::skip]
const NUMBERS: [(ValueType, [usize; 28]); 16] = [
    (ValueType::F32, [28, 32, 36, 40, 44, 64, 32, 8, 20, 32, 8224, 8228, 8232, 8236, 8256, 270_400, 1056, 1060, 1064, 1068, 1088, 33_856, 80, 84, 88, 92, 96, 2144]),
    (ValueType::F64, [32, 40, 48, 56, 64, 96, 64, 8, 24, 32, 8224, 8232, 8240, 8248, 8256, 270_400, 1056, 1064, 1072, 1080, 1088, 33_856, 80, 88, 96, 104, 128, 4224]),
    (ValueType::I16, [28, 30, 32, 36, 40, 64, 16, 8, 20, 32, 8224, 8226, 8228, 8232, 8256, 270_400, 1056, 1058, 1060, 1064, 1088, 33_856, 80, 82, 84, 88, 96, 1120]),
    (ValueType::I32, [28, 32, 36, 40, 44, 64, 32, 8, 20, 32, 8224, 8228, 8232, 8236, 8256, 270_400, 1056, 1060, 1064, 1068, 1088, 33_856, 80, 84, 88, 92, 96, 2144]),
    (ValueType::I64, [32, 40, 48, 56, 64, 96, 64, 8, 24, 32, 8224, 8232, 8240, 8248, 8256, 270_400, 1056, 1064, 1072, 1080, 1088, 33_856, 80, 88, 96, 104, 128, 4224]),
    (ValueType::Vec3F, [28, 40, 52, 64, 68, 96, 96, 16, 20, 32, 8224, 8236, 8248, 8252, 8256, 532_544, 1056, 1068, 1080, 1084, 1088, 66_624, 80, 92, 104, 108, 128, 6272]),
    (ValueType::Vec3D, [32, 56, 80, 104, 112, 128, 192, 24, 24, 64, 8224, 8248, 8272, 8280, 8288, 794_720, 1056, 1080, 1104, 1112, 1120, 99_424, 80, 104, 128, 136, 160, 12_448]),
    (ValueType::Mask, [28, 29, 30, 31, 32, 64, 0, 8, 20, 32, 8224, 8225, 8226, 8227, 8256, 270_400, 1056, 1057, 1058, 1059, 1088, 33_856, 80, 80, 80, 80, 80, 96]),
    (ValueType::U32, [28, 32, 36, 40, 44, 64, 32, 8, 20, 32, 8224, 8228, 8232, 8236, 8256, 270_400, 1056, 1060, 1064, 1068, 1088, 33_856, 80, 84, 88, 92, 96, 2144]),
    (ValueType::Bool, [28, 29, 30, 31, 32, 64, 1, 8, 20, 32, 8224, 8225, 8226, 8227, 8256, 270_400, 1056, 1057, 1058, 1059, 1088, 33_856, 80, 80, 80, 80, 80, 160]),
    (ValueType::Rgba8, [28, 32, 36, 40, 44, 64, 32, 8, 20, 32, 8224, 8228, 8232, 8236, 8256, 270_400, 1056, 1060, 1064, 1068, 1088, 33_856, 80, 84, 88, 92, 96, 2144]),
    (ValueType::Vec4F, [28, 44, 60, 76, 80, 96, 128, 16, 20, 64, 8224, 8240, 8256, 8260, 8288, 532_576, 1056, 1072, 1088, 1092, 1120, 66_656, 80, 96, 112, 116, 128, 8320]),
    (ValueType::Vec4D, [32, 64, 96, 128, 136, 160, 256, 32, 24, 64, 8224, 8256, 8288, 8296, 8320, 1_056_896, 1056, 1088, 1120, 1128, 1152, 132_224, 80, 112, 144, 152, 160, 16_544]),
    (ValueType::Index, [32, 40, 48, 56, 64, 96, 0, 8, 24, 32, 8224, 8232, 8240, 8248, 8256, 270_400, 1056, 1064, 1072, 1080, 1088, 33_856, 80, 80, 80, 80, 80, 96]),
    (ValueType::OnIndex, [32, 40, 48, 56, 64, 96, 0, 8, 24, 32, 8224, 8232, 8240, 8248, 8256, 270_400, 1056, 1064, 1072, 1080, 1088, 33_856, 80, 80, 80, 80, 80, 96]),
    (ValueType::U8, [28, 29, 30, 32, 36, 64, 8, 8, 20, 32, 8224, 8225, 8228, 8232, 8256, 270_400, 1056, 1057, 1060, 1064, 1088, 33_856, 80, 81, 84, 88, 96, 608]),
];

#[test]
#[rustfmt::skip]
fn layouts_are_those_of_the_format() {
    for (value_type, numbers) in NUMBERS {
        let l = value_type.layout();
        let found = [
            l.root_background, l.root_min, l.root_max, l.root_average, l.root_stddev, l.root_size,
            l.value_bits, l.table_stride, l.tile_value, l.tile_size,
            l.upper_min, l.upper_max, l.upper_average, l.upper_stddev, l.upper_table, l.upper_size,
            l.lower_min, l.lower_max, l.lower_average, l.lower_stddev, l.lower_table, l.lower_size,
            l.leaf_min, l.leaf_max, l.leaf_average, l.leaf_stddev, l.leaf_values, l.leaf_size,
        ];
        assert_eq!(found, numbers, "{value_type}");
    }
}

#[test]
fn numbers_of_types() {
    for value_type in ValueType::ALL {
        assert_eq!(ValueType::from_code(value_type.code()).unwrap(), *value_type);
    }
    let name = |code| ValueType::from_code(code).unwrap_err().to_string();
    for (code, expected) in [
        (0, "unknown"),
        (9, "Half"),
        (13, "Float4"),
        (14, "Float8"),
        (15, "Float16"),
        (16, "FloatN"),
        (21, "IndexMask"),
        (22, "OnIndexMask"),
        (23, "PointIndex"),
        (24, "Vec3u8"),
        (25, "Vec3u16"),
        (27, "unknown"),
        (u32::MAX, "unknown"),
    ] {
        assert_eq!(
            name(code),
            format!("values of type {expected} (number {code}) are not supported")
        );
    }
}
