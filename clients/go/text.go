package tollgate

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// invalidText returns the error of a request with a text that is not UTF-8, or nil. gRPC cannot
// encode such a request. prefix comes before the path of the field.
func invalidText(request proto.Message, prefix string) *Error {
	if path := invalidField(request.ProtoReflect(), prefix); path != "" {
		return missing(path, "expected valid UTF-8")
	}
	return nil
}

// invalidField returns the path of a text field that is not UTF-8, or "".
func invalidField(message protoreflect.Message, prefix string) string {
	found := ""
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		path := prefix + string(field.Name())
		switch {
		case field.IsMap():
		case field.Kind() == protoreflect.StringKind && !field.IsList():
			if !utf8.ValidString(value.String()) {
				found = path
			}
		case field.Kind() == protoreflect.MessageKind && field.IsList():
			for i := 0; i < value.List().Len() && found == ""; i++ {
				found = invalidField(value.List().Get(i).Message(), fmt.Sprintf("%s[%d].", path, i))
			}
		case field.Kind() == protoreflect.MessageKind:
			found = invalidField(value.Message(), path+".")
		}
		return found == ""
	})
	return found
}
