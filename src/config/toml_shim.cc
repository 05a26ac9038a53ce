#include "config/toml_shim.h"

#include <cstdio>
#include <stdexcept>
#include <string_view>

/* With the cap on dotted keys (toml.c) this bounds how deep the parser recurses. */
#define TOML_MAX_NESTED_VALUES 16
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : gb_toml_doubt(#expr))
/* The text is foreign: where the parser doubts itself the file is refused. */
[[noreturn]] static void gb_toml_doubt(const char *what)
{
	throw std::logic_error(what);
}
#include <toml++/toml.h>

namespace
{
json_t *convert(const toml::node &node);

json_t *text(const std::string &s)
{
	return json_stringn(s.data(), s.size());
}

json_t *convert_table(const toml::table &table)
{
	json_t *object = json_object();

	for (auto &&[key, value] : table) {
		json_t *node = convert(value);
		auto at = key.source().begin;

		json_object_set_new(node, "key_line", json_integer(at.line));
		json_object_set_new(node, "key_column", json_integer(at.column));
		if (json_object_setn_new(object, key.str().data(), key.str().size(), node))
			throw std::bad_alloc();
	}
	return object;
}

json_t *convert_value(const toml::node &node, const char **type)
{
	if (auto table = node.as_table())
		return *type = "table", convert_table(*table);
	if (auto array = node.as_array()) {
		json_t *list = json_array();

		for (auto &&item : *array)
			json_array_append_new(list, convert(item));
		return *type = "array", list;
	}
	if (auto s = node.as_string())
		return *type = "string", text(s->get());
	if (auto i = node.as_integer())
		return *type = "integer", json_integer(i->get());
	if (auto f = node.as_floating_point())
		return *type = "float", json_real(f->get());
	if (auto b = node.as_boolean())
		return *type = "boolean", json_boolean(b->get());
	return *type = "date", json_null();
}

json_t *convert(const toml::node &node)
{
	const char *type = "";
	json_t *value = convert_value(node, &type);
	auto at = node.source().begin;

	if (!value)
		value = json_null(); /* infinity and not-a-number have no JSON form */
	return json_pack("{s:s, s:I, s:I, s:o}", "type", type, "line", (json_int_t)at.line,
		"column", (json_int_t)at.column, "value", value);
}
}

extern "C" json_t *gb_toml_shim(const char *text, size_t len, struct gb_toml_error *ret_error)
{
	try {
		return convert(toml::parse(std::string_view(text, len)));
	} catch (const toml::parse_error &e) {
		auto at = e.source().begin;

		ret_error->line = at.line ? at.line : 1;
		ret_error->column = at.column ? at.column : 1;
		std::snprintf(ret_error->text, sizeof(ret_error->text), "%s",
			std::string(e.description()).c_str());
	} catch (...) {
		*ret_error = {};
	}
	return nullptr;
}
