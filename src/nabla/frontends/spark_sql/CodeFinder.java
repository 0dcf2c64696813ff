import java.util.*;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import scala.Product;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Says what in a text is more than a query over known relations: a statement, a program that it starts, a function that is not
 * Spark's own or that reaches out of Spark, a table or file that nobody gave it. It looks at the text as it is parsed: resolving
 * a query may already evaluate parts of it. Operators that are not listed are refused, so that a new one is not let in unseen.
 * Compiled by Janino, as CatalystReader is.
 */
public class CodeFinder {
    private final SparkSession session;
    private final Set operators;
    private final Set refused;

    /** `operators` are the classes that a parsed query may consist of, `refused` the functions that it may not call. */
    public CodeFinder(SparkSession session, Collection operators, Collection refused) {
        this.session = session;
        this.operators = new HashSet(operators);
        this.refused = new HashSet(refused);
    }

    /** What a text does beyond a query over temporary views of the session, in words; null where it is no more than that. */
    public String find(String text) throws Exception {
        return inPlan(session.sessionState().sqlParser().parsePlan(text), new HashSet());
    }

    private String inPlan(LogicalPlan plan, Set tables) {
        String kind = plan.getClass().getSimpleName().replace("$", "");
        if (!operators.contains(kind)) return "the operator " + kind;
        if (plan instanceof UnresolvedRelation) return inRelation(((UnresolvedRelation) plan).multipartIdentifier(), tables);
        if (plan instanceof UnresolvedTableValuedFunction) {
            String found = inCall(((UnresolvedTableValuedFunction) plan).name());
            if (found != null) return found;
        }
        Set visible = tables;
        if (plan instanceof UnresolvedWith) {
            visible = new HashSet(tables);
            UnresolvedWith with = (UnresolvedWith) plan;
            for (Iterator i = with.cteRelations().iterator(); i.hasNext();) {
                Product table = (Product) i.next();
                String name = ((String) table.productElement(0)).toLowerCase(Locale.ROOT);
                // A table that is not recursive does not see itself: its name would be that of another one.
                if (with.allowRecursion()) visible.add(name);
                String found = inPlan((LogicalPlan) table.productElement(1), visible);
                if (found != null) return found;
                visible.add(name);
            }
        }
        return inFields(plan, visible, plan instanceof UnresolvedWith ? 1 : Integer.MAX_VALUE);
    }

    /** Some parts of a plan are neither its children nor its expressions, like the windows that it names: so all fields count. */
    private String inFields(Product node, Set tables, int most) {
        for (int i = 0; i < Math.min(most, node.productArity()); i++) {
            String found = inValue(node.productElement(i), tables);
            if (found != null) return found;
        }
        return null;
    }

    private String inValue(Object value, Set tables) {
        if (value instanceof LogicalPlan) return inPlan((LogicalPlan) value, tables);
        if (value instanceof Expression) return inExpression((Expression) value, tables);
        if (value instanceof Iterable) {
            for (Iterator i = ((Iterable) value).iterator(); i.hasNext();) {
                String found = inValue(i.next(), tables);
                if (found != null) return found;
            }
            return null;
        }
        return value instanceof Product ? inFields((Product) value, tables, Integer.MAX_VALUE) : null;
    }

    private String inExpression(Expression e, Set tables) {
        if (e instanceof UnresolvedFunction) {
            String found = inCall(((UnresolvedFunction) e).nameParts());
            if (found != null) return found;
        } else if (e instanceof UnresolvedGenerator) {
            UnresolvedGenerator generator = (UnresolvedGenerator) e;
            if (generator.name().database().isDefined()) return "the function " + generator.name().unquotedString();
            String found = inCall(generator.name().funcName());
            if (found != null) return found;
        } else if (e instanceof ExpressionWithUnresolvedIdentifier) {
            return "a name that is computed";
        }
        return inFields(e, tables, Integer.MAX_VALUE);
    }

    private String inRelation(Seq name, Set tables) {
        String first = (String) name.head();
        if (name.size() == 1 && tables.contains(first.toLowerCase(Locale.ROOT))) return null;
        if (name.size() == 1 && session.sessionState().catalog().getRawTempView(first).isDefined()) return null;
        return "the relation " + name.mkString(".");
    }

    private String inCall(Seq name) {
        return name.size() == 1 ? inCall((String) name.head()) : "the function " + name.mkString(".");
    }

    private String inCall(String name) {
        FunctionIdentifier function = new FunctionIdentifier(name.toLowerCase(Locale.ROOT));
        boolean builtIn = FunctionRegistry$.MODULE$.builtin().functionExists(function)
            || TableFunctionRegistry$.MODULE$.builtin().functionExists(function);
        return builtIn && !refused.contains(name.toLowerCase(Locale.ROOT)) ? null : "the function " + name;
    }
}
